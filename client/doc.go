// Package client lets a program speak into a session of the Lingua Scheduler: start one, write audio, range over what
// comes back.
//
//	s, err := client.Start(ctx, client.Config{URL: "http://127.0.0.1:5010", Start: wire.SessionStart{Langs: []string{"en", "es"}}})
//	…
//	go func() {
//		io.Copy(s, audio)
//		s.End()
//	}()
//	for e, err := range s.Events() {
//		…
//	}
//
// A connection that is lost is made again and the session goes on: results come once and in order, and audio is kept
// until the terminal message of its utterance, to be sent again from where the scheduler asks for it. Binary frames carry their
// sequence number, and results are acknowledged as they come.
//
// Range over Events while you write. What is not read is kept up to a bound; then the connection is not read any more,
// and the scheduler, which waits for nobody, closes it.
//
// The package imports nothing of the scheduler but the messages in wire.
package client
