package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/lingua-scheduler/lingua/client"
	"github.com/lingua-scheduler/lingua/internal/backoff"
	"github.com/lingua-scheduler/lingua/wire"
)

type talkCmd struct {
	several
	Token    string `help:"A session's token, or an operator's key; LINGUA_TOKEN stands for it." placeholder:"TOKEN"`
	JSON     bool   `help:"Print what comes back as JSON, one event a line." name:"json"`
	File     string `arg:"" help:"A WAV file of 16-bit PCM." placeholder:"FILE.wav"`
	From     string `help:"The language that is spoken in it." required:"" placeholder:"LANG"`
	To       string `help:"The language that is wanted." required:"" placeholder:"LANG"`
	Partials bool   `help:"Show what there is so far." default:"true" negatable:""`
}

// Run speaks a file into a session at the pace at which it was spoken, and prints what comes back.
func (c *talkCmd) Run(ctx context.Context, io streams) error {
	urls, err := c.addresses()
	if err != nil {
		return err
	}
	file, err := os.Open(c.File)
	if err != nil {
		return usageError{err}
	}
	defer func() { _ = file.Close() }() // it was only read
	sound := bufio.NewReaderSize(file, 64<<10)
	format, err := readWAV(sound)
	if err != nil {
		return usageError{fmt.Errorf("%s: %w", c.File, err)}
	}
	talking, hangUp := context.WithCancel(context.WithoutCancel(ctx))
	defer hangUp()
	s, err := client.Start(talking, client.Config{
		URLs: urls, Token: c.Token, Log: slog.New(slog.DiscardHandler),
		Start: wire.SessionStart{Langs: []string{c.From, c.To}, Audio: wire.SessionAudio{Encoding: format.Encoding, SampleRate: format.SampleRate, Channels: format.Channels}, Partials: c.Partials},
	})
	if err != nil {
		return said(c.named(), err)
	}
	// Whoever interrupts it wants to hear the end of what was said, but not for long.
	impatient := context.AfterFunc(ctx, func() {
		_ = s.End()
		time.AfterFunc(lastResults, hangUp)
	})
	defer impatient()
	spoken := make(chan error, 1)
	go func() { spoken <- speak(ctx, s, sound, format) }()
	err = c.listen(s, io.out)
	_ = s.Close()
	err = errors.Join(err, <-spoken)
	if ctx.Err() != nil {
		return errInterrupted
	}
	return err
}

// lastResults is how long results are waited for when talk is interrupted.
const lastResults = 2 * time.Second

var (
	errInterrupted = errors.New("interrupted")
	errSilence     = errors.New("nothing was said: the file is empty, or silent")
)

// said makes an error of this program of one of the client's.
func said(url string, err error) error {
	var e *wire.Error
	if errors.As(err, &e) {
		return e
	}
	return &unreachableError{url: url, cause: err}
}

// pieces is how much is sent at once.
const pieces = 100 * time.Millisecond

// speak sends the sound in real time, and the end of it.
func speak(ctx context.Context, s *client.Session, sound io.Reader, f wire.AudioFormat) error {
	buf := make([]byte, 2*f.Channels*f.SampleRate/int(time.Second/pieces))
	for due := time.Now(); ; {
		got, err := io.ReadFull(sound, buf)
		if got > 0 {
			if _, err := s.Write(buf[:got]); err != nil {
				return unlessOver(err)
			}
		}
		if err != nil {
			break
		}
		due = due.Add(pieces)
		if !backoff.Sleep(ctx, time.Until(due)) {
			return nil
		}
	}
	return unlessOver(s.End())
}

// unlessOver drops what only says that the conversation was over first: whoever listens says why.
func unlessOver(err error) error {
	if errors.Is(err, client.ErrClosed) || errors.Is(err, client.ErrEnded) {
		return nil
	}
	return err
}

// listen prints what comes back until the session has ended. It is an error if anything that was said has no result.
func (c *talkCmd) listen(s *client.Session, out io.Writer) error {
	for e, err := range s.Events() {
		if err != nil {
			return said(c.named(), err)
		}
		if c.JSON {
			if err := json.NewEncoder(out).Encode(map[string]any{"event": fmt.Sprintf("%T", e)[len("client."):], "body": e}); err != nil {
				return err
			}
		} else {
			c.show(out, e)
		}
		if ended, ok := e.(client.SessionEnded); ok {
			return unanswered(&ended)
		}
	}
	return nil
}

// unanswered says whether something that was said has no result.
func unanswered(e *client.SessionEnded) error {
	switch {
	case e.Utterances == 0:
		return errSilence
	case e.Errors > 0:
		return fmt.Errorf("%d of %d utterances have no result", e.Errors, e.Utterances)
	}
	return nil
}

func (c *talkCmd) show(out io.Writer, e client.Event) {
	switch e := e.(type) {
	case client.UtteranceCommitted:
		fmt.Fprintf(out, "[%d] %.1f s, %s to %s\n", e.UtteranceIndex+1, float64(e.DurationMS)/1000, e.SrcLang, e.TgtLang)
	case client.PartialResult:
		fmt.Fprintf(out, "[%d] … %s %s\n", e.UtteranceIndex+1, e.TextSrc, e.TextTgt)
	case client.Result:
		fmt.Fprintf(out, "[%d] %s\n[%d] %s  (%d ms)\n", e.UtteranceIndex+1, e.TextSrc, e.UtteranceIndex+1, e.TextTgt, e.Latency.TotalMS)
	case client.UtteranceFailed:
		fmt.Fprintf(out, "[%d] no result: %s\n", e.UtteranceIndex+1, e.Err.Detail)
	case client.Warning:
		fmt.Fprintf(out, "warning: %s\n", e.Detail)
	case client.Reconnecting:
		fmt.Fprintln(out, "the connection was lost; connecting again")
	case client.SessionEnded:
		fmt.Fprintf(out, "utterances: %d, results: %d, errors: %d, speech: %.1f s\n", e.Utterances, e.Results, e.Errors, float64(e.AudioMS)/1000)
	}
}
