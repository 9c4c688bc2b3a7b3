// Command client sends a WAV file (16 bits, mono) to a session and prints the results: client URL FILE.wav FROM TO.
package main

import (
	"context"
	"os"

	"github.com/lingua-scheduler/lingua/client"
	"github.com/lingua-scheduler/lingua/wire"
)

func main() {
	wav := must(os.ReadFile(os.Args[2]))
	start := wire.SessionStart{Langs: os.Args[3:5], Audio: wire.SessionAudio{SampleRate: int(wav[24]) | int(wav[25])<<8}}
	s := must(client.Start(context.Background(), client.Config{URL: os.Args[1], Start: start})) //nolint:forbidigo // the root
	go func() { must(s.Write(wav[44:])); must(s, s.End()) }()
	for event, err := range s.Events() {
		if r, ok := must(event, err).(client.Result); ok {
			must(os.Stdout.WriteString(r.TextSrc + " → " + r.TextTgt + "\n"))
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
