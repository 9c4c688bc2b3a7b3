package drill

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/lingua-scheduler/lingua/internal/backoff"
	"github.com/lingua-scheduler/lingua/node"
	"github.com/lingua-scheduler/lingua/wire"
)

// take is its door: the scheduler hands over a job.
func (n *callback) take(w http.ResponseWriter, r *http.Request) {
	var a wire.Assignment
	if err := json.NewDecoder(io.LimitReader(r.Body, wire.MaxBody)).Decode(&a); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	key := wire.ActiveJob{JobID: a.JobID, AttemptID: a.AttemptID}
	fate := n.dice(&node.Job{ID: a.JobID, Attempt: a.AttemptID}).Float64()
	if n.deaf && a.AttemptID == 1 {
		n.j.note(entry{Who: n.name, What: assigned, Job: a.JobID, Attempt: a.AttemptID, Slots: n.slots, Code: "misheard"})
		n.mishear(w, r, fate)
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	e := entry{Who: n.name, What: assigned, Job: a.JobID, Attempt: a.AttemptID, Held: len(n.hand), Slots: n.slots}
	if e.Held >= n.slots && !n.hand[key] {
		e.What = oversold
	}
	n.j.note(e)
	switch {
	case n.life.Err() != nil:
		w.WriteHeader(http.StatusGone)
	case n.active[key] != nil:
		n.tasks.Go(func() { _ = n.report(n.life, "ack", key, nil) }) // it is taken once, and confirmed each time
	case n.busy >= n.slots || a.AttemptID == 1 && fate < busy:
		n.j.note(entry{Who: n.name, What: rejected, Job: a.JobID, Attempt: a.AttemptID, Code: "NODE_BUSY"})
		w.WriteHeader(http.StatusTooManyRequests)
	default:
		n.begin(key, a)
	}
}

// mishear does not take a job, in one of the ways from which nobody can tell.
func (n *callback) mishear(w http.ResponseWriter, r *http.Request, fate float64) {
	switch {
	case fate < 1.0/3:
		w.WriteHeader(http.StatusBadGateway)
	case fate < 2.0/3:
		panic(http.ErrAbortHandler) // the connection breaks
	default:
		select {
		case <-r.Context().Done(): // whoever gave it does not wait any longer
		case <-n.life.Done():
		}
	}
}

// begin takes a job.
func (n *callback) begin(key wire.ActiveJob, a wire.Assignment) {
	ctx, stop := context.WithTimeout(n.life, time.Duration(a.TimeoutMS)*time.Millisecond)
	n.hand[key], n.active[key] = true, stop
	n.busy++
	n.tasks.Go(func() {
		defer stop()
		taken := n.do(ctx, key, &a)
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.active, key)
		if !taken {
			n.hurry() // the slot is free when a heartbeat does not list the job
		}
	})
}

// do confirms a job, works on it and reports. It says whether that was accepted.
func (n *callback) do(ctx context.Context, key wire.ActiveJob, a *wire.Assignment) bool {
	err := n.report(ctx, "ack", key, nil)
	var text string
	if err == nil {
		n.j.note(entry{Who: n.name, What: acked, Job: key.JobID, Attempt: key.AttemptID})
		text, err = n.noted(ctx, key, a)
	}
	n.mu.Lock()
	n.busy--
	delete(n.hand, key) // from here on its hands are free, whether or not the scheduler has heard of it
	n.mu.Unlock()
	var failed givenUp
	switch {
	case err == nil:
		err = n.report(ctx, "done", key, map[string]any{"status": "ok", "result": map[string]string{"text_tgt": text}})
	case errors.As(err, &failed):
		err = n.report(ctx, "fail", key, map[string]any{"reason": string(failed)})
	}
	e := entry{Who: n.name, What: taken, Job: key.JobID, Attempt: key.AttemptID, OK: err == nil}
	if err != nil {
		e.Code = err.Error()
	}
	n.j.note(e)
	return err == nil
}

// report says something about a job until there is an answer that another try would not change, or the attempt is over.
func (n *callback) report(ctx context.Context, what string, key wire.ActiveJob, more map[string]any) error {
	in := map[string]any{"job_id": key.JobID, "attempt_id": key.AttemptID, "node_id": n.name}
	for name, value := range more {
		in[name] = value
	}
	var ok wire.OKResponse
	return n.peer.Insist(ctx, "/v1/job/"+what, in, &ok)
}

// noted works, and notes when it began and how it ended.
func (n *callback) noted(ctx context.Context, key wire.ActiveJob, a *wire.Assignment) (string, error) {
	e := entry{Who: n.name, Job: key.JobID, Attempt: key.AttemptID}
	return attempted(ctx, n.j, &n.works, e, func() (string, error) { return n.work(ctx, a) })
}

// givenUp is the reason for which a node gives a job up.
type givenUp string

func (f givenUp) Error() string { return string(f) }

// work takes its time, and says who did what.
func (n *callback) work(ctx context.Context, a *wire.Assignment) (string, error) {
	size := int64(0)
	if a.Audio != nil {
		var err error
		if size, err = n.listen(ctx, a.AudioRef); err != nil {
			return "", err
		}
	}
	dice := n.dice(&node.Job{ID: a.JobID, Attempt: a.AttemptID})
	fate := dice.Float64()
	if !backoff.Sleep(ctx, 100*time.Millisecond+time.Duration(dice.Int64N(int64(500*time.Millisecond)))) {
		return "", ctx.Err()
	}
	if a.AttemptID == 1 && fate > 1-faulty {
		return "", givenUp("DRILL")
	}
	text, err := json.Marshal(deed{Node: n.name, Job: a.JobID, Attempt: a.AttemptID, Bytes: size})
	return string(text), err
}

// listen fetches the sound of a job, and says how much there is of it. It is tried a few times.
func (n *callback) listen(ctx context.Context, address string) (int64, error) {
	var size int64
	fetch := func() error {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
		if err != nil {
			return err
		}
		resp, err := n.peer.Client.Do(r)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("the sound: %s", resp.Status)
		}
		size, err = io.Copy(io.Discard, resp.Body)
		return err
	}
	for range 3 {
		if fetch() == nil {
			return size, nil
		}
		if !backoff.SleepJitter(ctx, 200*time.Millisecond, 0.5) {
			return 0, ctx.Err()
		}
	}
	return 0, givenUp("AUDIO_LOST")
}
