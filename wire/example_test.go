package wire_test

import (
	"errors"
	"fmt"

	"github.com/lingua-scheduler/lingua/wire"
)

func ExampleEncodeFrame() {
	text, err := wire.EncodeFrame(wire.SessionStart{Langs: []string{"en", "es"}, Partials: true})
	fmt.Println(string(text), err)
	// Output: {"type":"session_start","langs":["en","es"],"partials":true} <nil>
}

// A text frame is decoded by its type.
func ExampleTypeOf() {
	text := []byte(`{"type":"result","seq":1,"utterance_index":0,"text_tgt":"buenos días"}`)
	frameType, err := wire.TypeOf(text)
	if err != nil {
		fmt.Println(err)
		return
	}
	switch frameType {
	case wire.SessionResult{}.Type():
		var result wire.SessionResult
		err = wire.Decode(text, &result)
		fmt.Println(result.TextTgt, err)
	}
	// Output: buenos días <nil>
}

// The error of Decode names the field and its expected type.
func ExampleDecode() {
	var start wire.SessionStart
	err := wire.Decode([]byte(`{"langs":["en","es"],"audio":{"sample_rate":"high"}}`), &start)
	var e *wire.Error
	if errors.As(err, &e) {
		fmt.Println(e.Code, e.Field)
		fmt.Println(e.Detail)
	}
	// Output:
	// INVALID_REQUEST audio.sample_rate
	// audio.sample_rate: must be a whole number, not string
}

// A binary frame carries a chunk of audio or of speech.
func ExampleAppendBinary() {
	header := wire.BinaryHeader{Kind: wire.KindTTS, ActiveJob: wire.ActiveJob{JobID: "job-1", AttemptID: 1}, Last: true}
	frame, err := wire.AppendBinary(nil, &header, []byte{1, 2, 3, 4})
	if err != nil {
		fmt.Println(err)
		return
	}
	read, audio, err := wire.ReadBinary(frame)
	fmt.Println(read.JobID, read.Chunk, read.Last, len(audio), err)
	// Output: job-1 0 true 4 <nil>
}

func ExampleCode_Retryable() {
	for _, code := range []wire.Code{wire.NoCapableNode, wire.InvalidRequest} {
		fmt.Println(code, code.Retryable())
	}
	// Output:
	// NO_CAPABLE_NODE true
	// INVALID_REQUEST false
}
