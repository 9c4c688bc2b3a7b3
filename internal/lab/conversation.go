package lab

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/lingua-scheduler/lingua/client"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/wire"
)

// Conversation is two people who speak in turn over one session.
type Conversation struct {
	URL                string
	Token              string // empty: the scheduler has no keys
	Langs              [2]string
	Pause              func() time.Duration // between a result and the next utterance
	ConnectionLifetime time.Duration        // the mean lifetime of a connection; 0: no limit

	OnUtterance func(Utterance) // called for every utterance that ended
	OnResume    func()          // called when the session was resumed
}

// Utterance is the outcome of one utterance.
type Utterance struct {
	Total    time.Duration // from the end of the utterance to its terminal message
	Overhead time.Duration // the part of Total in which no node worked on the job
	Reason   string        // why there is no result; empty: there is one
}

// LanguagePairs are the languages of the demo's conversations.
var LanguagePairs = [][2]string{{"en", "de"}, {"en", "zh"}, {"fr", "es"}, {"ja", "en"}, {"de", "fr"}, {"ko", "en"}, {"zh", "ja"},
	{"es", "en"}}

// utteranceAudio is the audio of every utterance of a conversation.
var utteranceAudio = Tone(300 * time.Millisecond)

// Tone returns a tone in the default format of sessions.
func Tone(d time.Duration) []byte {
	const sampleRate = 16_000
	pcm := make([]byte, 2*int(d*sampleRate/time.Second))
	for i := range len(pcm) / 2 {
		pcm[2*i+1] = byte(i % 64) // a sawtooth of 250 Hz
	}
	return pcm
}

// Run sends utterances until the context ends or the session is lost, and returns the error.
func (c *Conversation) Run(ctx context.Context) error {
	s, err := client.Start(ctx, client.Config{
		Log: slog.New(slog.DiscardHandler),
		URL: c.URL, Token: c.Token, HTTPClient: unstableClient(c.ConnectionLifetime),
		Start: wire.SessionStart{Langs: c.Langs[:], Partials: true},
	})
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	for i := 0; run.Sleep(ctx, c.Pause()); i++ {
		if err := c.sendUtterance(s, c.Langs[i%2]); err != nil {
			return err
		}
		if err := c.waitOutcome(s, time.Now()); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (c *Conversation) sendUtterance(s *client.Session, src string) error {
	if err := s.Begin(wire.UtteranceStart{SrcLang: src}); err != nil {
		return err
	}
	if _, err := s.Write(utteranceAudio); err != nil {
		return err
	}
	return s.Commit()
}

// WorkTime returns how long a Worker worked, according to its result; 0 for a result of another node.
func WorkTime(result json.RawMessage) time.Duration {
	var fields map[string]any
	if json.Unmarshal(result, &fields) != nil {
		return 0
	}
	us, _ := fields[workTimeField].(float64)
	return time.Duration(us) * time.Microsecond
}

// waitOutcome waits for the terminal message of an utterance.
func (c *Conversation) waitOutcome(s *client.Session, since time.Time) error {
	for e, err := range s.Events() {
		if err != nil {
			return err
		}
		switch e := e.(type) {
		case client.Result:
			total := time.Since(since)
			c.OnUtterance(Utterance{Total: total, Overhead: total - WorkTime(e.Result)})
			return nil
		case client.UtteranceFailed:
			c.OnUtterance(Utterance{Total: time.Since(since), Reason: e.Reason})
			return nil
		case client.SessionResumed:
			c.OnResume()
		}
	}
	return client.ErrClosed
}

// unstableClient returns an HTTP client whose connections are cut after a mean lifetime; nil, the default client, for 0.
func unstableClient(lifetime time.Duration) *http.Client {
	if lifetime == 0 {
		return nil
	}
	return &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		var d net.Dialer
		c, err := d.DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		time.AfterFunc(run.Jitter(lifetime, 0.5), func() { _ = c.Close() })
		return c, nil
	}}}
}
