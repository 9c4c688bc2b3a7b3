// Package client runs a session of the Lingua Scheduler: it sends audio and returns the translations.
//
//	s, err := client.Start(ctx, client.Config{URL: "http://127.0.0.1:5010", Start: wire.SessionStart{Langs: []string{"en", "es"}}})
//	…
//	go func() {
//		io.Copy(s, audio)
//		s.End()
//	}()
//	for event, err := range s.Events() {
//		…
//	}
//
// A lost connection is replaced and the session resumed: each result is delivered once and in order. The package keeps audio
// until the result of its utterance has arrived, and resends it where the scheduler asks for it. It numbers binary frames and
// acknowledges results.
//
// Range over Events while you write. Events are buffered up to a limit. At the limit the connection is no longer read, and
// the scheduler closes it.
package client
