package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lingua-scheduler/lingua/internal/pause"
	"github.com/lingua-scheduler/lingua/wire"
)

// Conversation is two people who speak in turn, each utterance one job.
type Conversation struct {
	ID    string
	Langs [2]string
	Pause func() time.Duration // between two utterances
	Poll  time.Duration        // how often it looks for the result

	// Heard is called with every utterance that ended.
	Heard func(Utterance)
}

// Utterance is what became of one.
type Utterance struct {
	Dispatch time.Duration // until somebody had the job
	Total    time.Duration // until there was a result
	State    string        // of the job; empty when there was none
	Reason   string        // why it ended, when it was not done
	Refused  wire.Code     // why there was none
	Err      error         // the scheduler could not be asked
}

// Run speaks until the context ends.
func (c *Conversation) Run(ctx context.Context, peer *Peer) {
	for i := 0; ctx.Err() == nil; i++ {
		if !pause.For(ctx, c.Pause()) {
			return
		}
		src, tgt := c.Langs[i%2], c.Langs[(i+1)%2]
		u := c.speak(ctx, peer, wire.DispatchRequest{
			RequestID: fmt.Sprintf("%s-%d-%d", c.ID, i, rand.Uint64()), SessionID: c.ID, SrcLang: src, TgtLang: tgt,
			AudioRef: fmt.Sprintf("sim://%s/%d", c.ID, i),
		})
		if ctx.Err() == nil {
			c.Heard(u)
		}
	}
}

func (c *Conversation) speak(ctx context.Context, peer *Peer, in wire.DispatchRequest) Utterance {
	began := time.Now()
	var placed wire.DispatchResponse
	err := peer.Post(ctx, "/v1/dispatch/f2f", in, &placed)
	u := Utterance{Dispatch: time.Since(began)}
	if err != nil {
		var said *wire.Error
		if errors.As(err, &said) {
			u.Refused = said.Code
		} else {
			u.Err = err
		}
		return u
	}
	for {
		var job wire.Job
		if err := peer.Get(ctx, "/v1/jobs/"+placed.JobID, &job); err != nil {
			u.Err = err
			return u
		}
		switch job.State {
		case "DONE", "FAILED", "CANCELLED":
			u.Total, u.State, u.Reason = time.Since(began), job.State, job.Reason
			return u
		}
		if !pause.For(ctx, c.Poll) {
			return u
		}
	}
}
