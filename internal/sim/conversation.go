package sim

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/lingua-scheduler/lingua/client"
	"github.com/lingua-scheduler/lingua/internal/backoff"
	"github.com/lingua-scheduler/lingua/wire"
)

// Conversation is two people who speak in turn into one session.
type Conversation struct {
	URL   string
	Langs [2]string
	Pause func() time.Duration // between a result and the next utterance
	Line  time.Duration        // about how long their connection lasts; 0: as long as it is wanted

	Heard   func(Utterance) // is called with every utterance that ended
	Resumed func()          // is called when the session goes on after a cut
}

// Utterance is what became of one.
type Utterance struct {
	Total    time.Duration // from its end to its terminal message, as the speaker sees it
	Overhead time.Duration // of that, what the worker who did it did not need
	Reason   string        // why there is no result; empty: there is one
}

// Pairs are the languages in which the demo's conversations are held.
var Pairs = [][2]string{{"en", "de"}, {"en", "zh"}, {"fr", "es"}, {"ja", "en"}, {"de", "fr"}, {"ko", "en"}, {"zh", "ja"}, {"es", "en"}}

// saying is what is said each time: 300 ms of a tone, in the format sessions have unless they ask for another.
var saying = func() []byte {
	pcm := make([]byte, 2*16_000*3/10)
	for i := range len(pcm) / 2 {
		pcm[2*i+1] = byte(i % 64) // a saw of 250 Hz
	}
	return pcm
}()

// Run speaks until the context ends, or until the session is lost for good, and says which.
func (c *Conversation) Run(ctx context.Context) error {
	s, err := client.Start(ctx, client.Config{
		URL: c.URL, HTTPClient: badLine(c.Line), Log: slog.New(slog.DiscardHandler), Start: wire.SessionStart{Langs: c.Langs[:], Partials: true},
	})
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	for i := 0; backoff.Sleep(ctx, c.Pause()); i++ {
		if err := c.speak(s, c.Langs[i%2]); err != nil {
			return err
		}
		if err := c.listen(s, time.Now()); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (c *Conversation) speak(s *client.Session, src string) error {
	if err := s.Begin(wire.UtteranceStart{SrcLang: src}); err != nil {
		return err
	}
	if _, err := s.Write(saying); err != nil {
		return err
	}
	return s.Commit()
}

// took is how long a worker says it worked.
func took(result json.RawMessage) time.Duration {
	var said map[string]any
	if json.Unmarshal(result, &said) != nil {
		return 0
	}
	us, _ := said[tookField].(float64)
	return time.Duration(us) * time.Microsecond
}

// listen waits for the terminal message of what was said.
func (c *Conversation) listen(s *client.Session, since time.Time) error {
	for e, err := range s.Events() {
		if err != nil {
			return err
		}
		switch e := e.(type) {
		case client.Result:
			total := time.Since(since)
			c.Heard(Utterance{Total: total, Overhead: total - took(e.Result)})
			return nil
		case client.UtteranceFailed:
			c.Heard(Utterance{Total: time.Since(since), Reason: e.Reason})
			return nil
		case client.SessionResumed:
			c.Resumed()
		}
	}
	return client.ErrClosed
}
