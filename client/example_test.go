package client_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"

	"github.com/lingua-scheduler/lingua/client"
	"github.com/lingua-scheduler/lingua/wire"
)

// The events of a session report the outcome of each utterance.
func Example() {
	scheduler := httptest.NewServer(http.HandlerFunc(translatingScheduler))
	defer scheduler.Close()

	s, err := client.Start(context.Background(), client.Config{
		URL:   scheduler.URL,
		Token: "…",
		Start: wire.SessionStart{Langs: []string{"en", "es"}, Audio: wire.SessionAudio{SampleRate: 16000}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	go func() {
		_, _ = s.Write([]byte(strings.Repeat("\x00\x01", 8000))) // half a second; io.Copy of a file works as well
		_ = s.End()
	}()
	for event, err := range s.Events() {
		switch e := event.(type) {
		case client.Result:
			fmt.Println(e.TextSrc, "→", e.TextTgt)
		case client.UtteranceFailed:
			fmt.Println("utterance", e.UtteranceIndex, "failed:", e.Err)
		case client.SessionResumed:
			fmt.Println("the session was resumed")
		case client.SessionEnded:
			fmt.Println(e.Results, "of", e.Utterances, "utterances were translated")
		}
		if err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// good morning → buenos días
	// 1 of 1 utterances were translated
}

// translatingScheduler answers all audio with the same translation.
func translatingScheduler(w http.ResponseWriter, r *http.Request) {
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{wire.Subprotocol}})
	if err != nil {
		return
	}
	defer conn.CloseNow()
	send := func(f wire.Frame) {
		text, _ := wire.EncodeFrame(f)
		_ = conn.Write(r.Context(), websocket.MessageText, text)
	}
	var start wire.SessionStart
	_ = wsjson.Read(r.Context(), conn, &start)
	send(wire.SessionStarted{SessionID: "s-1", Audio: start.Audio, Limits: wire.SessionLimits{BufferedMS: 5000, ResumeMS: 60_000}})
	for typ := websocket.MessageBinary; typ == websocket.MessageBinary && err == nil; {
		typ, _, err = conn.Read(r.Context())
	}
	send(wire.SessionResult{Seq: 1, TextSrc: "good morning", TextTgt: "buenos días"})
	send(wire.SessionEnded{SessionID: "s-1", Utterances: 1, Results: 1})
	_ = conn.Close(websocket.StatusNormalClosure, "")
}

// Two people share a microphone, so each utterance names its language. The session moves between instances, with a new token
// when the first one has expired.
func ExampleSession_Begin() {
	scheduler := httptest.NewServer(http.HandlerFunc(translatingScheduler))
	defer scheduler.Close()

	s, err := client.Start(context.Background(), client.Config{
		URLs:        []string{scheduler.URL, scheduler.URL}, // or one URL of a load balancer
		TokenSource: func(context.Context) (string, error) { return "…", nil },
		Start:       wire.SessionStart{Langs: []string{"en", "es"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	_ = s.Begin(wire.UtteranceStart{SrcLang: "en", UtteranceID: "greeting"})
	_, _ = s.Write(make([]byte, 6400))
	_ = s.Commit()
	_ = s.End()
	for event, err := range s.Events() {
		if r, ok := event.(client.Result); ok {
			fmt.Println(r.TextTgt)
		}
		if err != nil {
			fmt.Println(err)
		}
	}
	// Output: buenos días
}
