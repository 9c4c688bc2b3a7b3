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
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/wire"
)

type talkCmd struct {
	serverAddresses
	Token    string `help:"Session token, or operator key; default from LINGUA_TOKEN." placeholder:"TOKEN"`
	JSON     bool   `help:"Print the events of the session as JSON, one a line." name:"json"`
	File     string `arg:"" help:"A WAV file of 16-bit PCM." placeholder:"FILE.wav"`
	From     string `help:"Language of the file." required:"" placeholder:"LANG"`
	To       string `help:"Language to translate to." required:"" placeholder:"LANG"`
	Partials bool   `help:"Show partial results." default:"true" negatable:""`
}

// Run streams a file into a session in real time and prints the events of the session.
func (c *talkCmd) Run(ctx context.Context, io streams) error {
	urls, err := c.urls()
	if err != nil {
		return err
	}
	httpClient, err := c.httpClient()
	if err != nil {
		return err
	}
	file, err := os.Open(c.File)
	if err != nil {
		return usageError{err}
	}
	defer func() { _ = file.Close() }() // opened for reading only
	audio := bufio.NewReaderSize(file, 64<<10)
	format, err := readWAV(audio)
	if err != nil {
		return usageError{fmt.Errorf("%s: %w", c.File, err)}
	}
	sessionCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	s, err := client.Start(sessionCtx, client.Config{
		URLs: urls, Token: c.Token, HTTPClient: httpClient, Log: slog.New(slog.DiscardHandler),
		Start: wire.SessionStart{Langs: []string{c.From, c.To},
			Audio:    wire.SessionAudio{Encoding: format.Encoding, SampleRate: format.SampleRate, Channels: format.Channels},
			Partials: c.Partials},
	})
	if err != nil {
		return sessionError(c.redacted(), err)
	}
	// After an interrupt the results of the audio that was sent are still awaited, for a short time.
	stopWaiting := context.AfterFunc(ctx, func() {
		_ = s.End()
		time.AfterFunc(lastResultsTimeout, cancel)
	})
	defer stopWaiting()
	sent := make(chan error, 1)
	go func() { sent <- sendAudio(ctx, s, audio, format) }()
	err = c.printEvents(s, io.out)
	_ = s.Close()
	err = errors.Join(err, <-sent)
	if ctx.Err() != nil {
		return errInterrupted
	}
	return err
}

// lastResultsTimeout bounds the wait for results after an interrupt.
const lastResultsTimeout = 2 * time.Second

var (
	errInterrupted  = errors.New("interrupted")
	errNoUtterances = errors.New("no utterance was found: the file is empty, or silent")
)

// sessionError converts an error of the client into one of this command.
func sessionError(url string, err error) error {
	var e *wire.Error
	if errors.As(err, &e) {
		return e
	}
	return &unreachableError{url: url, cause: err}
}

// audioInterval is the duration of the audio in one frame.
const audioInterval = 100 * time.Millisecond

// sendAudio sends the audio in real time and then ends the session.
func sendAudio(ctx context.Context, s *client.Session, audio io.Reader, f wire.AudioFormat) error {
	buf := make([]byte, 2*f.Channels*f.SampleRate/int(time.Second/audioInterval))
	for due := time.Now(); ; {
		n, err := io.ReadFull(audio, buf)
		if n > 0 {
			if _, err := s.Write(buf[:n]); err != nil {
				return ignoreClosed(err)
			}
		}
		if err != nil {
			break
		}
		due = due.Add(audioInterval)
		if !run.Sleep(ctx, time.Until(due)) {
			return nil
		}
	}
	return ignoreClosed(s.End())
}

// ignoreClosed drops the error of a session that has ended: printEvents returns the cause.
func ignoreClosed(err error) error {
	if errors.Is(err, client.ErrClosed) || errors.Is(err, client.ErrEnded) {
		return nil
	}
	return err
}

// printEvents prints the events of the session until it has ended. It is an error if an utterance has no result.
func (c *talkCmd) printEvents(s *client.Session, out io.Writer) error {
	for e, err := range s.Events() {
		if err != nil {
			return sessionError(c.redacted(), err)
		}
		if c.JSON {
			if err := json.NewEncoder(out).Encode(map[string]any{"event": eventName(e), "body": e}); err != nil {
				return err
			}
		} else {
			printEvent(out, e)
		}
		if ended, ok := e.(client.SessionEnded); ok {
			return checkResults(&ended)
		}
	}
	return nil
}

// checkResults returns an error unless every utterance has a result.
func checkResults(e *client.SessionEnded) error {
	switch {
	case e.Utterances == 0:
		return errNoUtterances
	case e.Errors > 0:
		return fmt.Errorf("%d of %d utterances have no result", e.Errors, e.Utterances)
	}
	return nil
}

func printEvent(out io.Writer, e client.Event) {
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
		fmt.Fprintln(out, "connection lost; reconnecting")
	case client.SessionEnded:
		fmt.Fprintf(out, "utterances: %d, results: %d, errors: %d, speech: %.1f s\n", e.Utterances, e.Results, e.Errors,
			float64(e.AudioMS)/1000)
	}
}

// eventName is the name of an event in the output of --json.
func eventName(e client.Event) string {
	switch e.(type) {
	case client.UtteranceCommitted:
		return "Committed"
	case client.PartialResult:
		return "Partial"
	case client.Result:
		return "Result"
	case client.UtteranceFailed:
		return "Failed"
	case client.SpeechChunk:
		return "Speech"
	case client.Warning:
		return "Warning"
	case client.Reconnecting:
		return "Reconnecting"
	case client.SessionResumed:
		return "Resumed"
	case client.SessionEnded:
		return "Ended"
	}
	return ""
}
