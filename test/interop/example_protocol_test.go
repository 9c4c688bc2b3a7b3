package interop

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/wire"
)

// scriptedScheduler lets a test play the scheduler, so that it can cut a connection between two messages.
type scriptedScheduler struct {
	t     *testing.T
	ctx   context.Context
	url   string
	conns chan *websocket.Conn
}

func startScriptedScheduler(t *testing.T) *scriptedScheduler {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	s := &scriptedScheduler{t: t, ctx: ctx, conns: make(chan *websocket.Conn)}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{wire.Subprotocol}})
		if err != nil {
			t.Error(err)
			return
		}
		select {
		case s.conns <- conn:
		case <-ctx.Done():
			_ = conn.CloseNow()
		}
	}))
	t.Cleanup(func() {
		cancel()
		server.Close()
	})
	s.url = server.URL
	return s
}

// scriptedConn is a connection of the client.
type scriptedConn struct {
	*scriptedScheduler
	conn *websocket.Conn
}

// accept waits for the next connection of the client.
func (s *scriptedScheduler) accept() *scriptedConn {
	s.t.Helper()
	select {
	case conn := <-s.conns:
		s.t.Cleanup(func() { _ = conn.CloseNow() })
		return &scriptedConn{s, conn}
	case <-s.ctx.Done():
		s.t.Fatal("the client does not connect")
		return nil
	}
}

// cut ends the connection without a close frame.
func (c *scriptedConn) cut() { _ = c.conn.CloseNow() }

func (c *scriptedConn) send(frames ...wire.Frame) {
	c.t.Helper()
	for _, f := range frames {
		text, err := wire.EncodeFrame(f)
		if err == nil {
			err = c.conn.Write(c.ctx, websocket.MessageText, text)
		}
		if err != nil {
			c.t.Fatalf("send %s: %v", f.Type(), err)
		}
	}
}

// sendChunk sends audio of a job.
func (c *scriptedConn) sendChunk(job wire.ActiveJob, chunk int, last bool, audio string) {
	c.t.Helper()
	frame, err := wire.AppendBinary(nil, &wire.BinaryHeader{Kind: wire.KindAudio, ActiveJob: job, Chunk: chunk, Last: last}, []byte(audio))
	if err == nil {
		err = c.conn.Write(c.ctx, websocket.MessageBinary, frame)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// next reads the next message. It fails the test if the connection ends.
func (c *scriptedConn) next() (websocket.MessageType, []byte) {
	c.t.Helper()
	kind, body, err := c.conn.Read(c.ctx)
	if err != nil {
		c.t.Fatal(err)
	}
	return kind, body
}

// expectClose reads up to the end of the connection, which the client must close.
func (c *scriptedConn) expectClose() {
	c.t.Helper()
	for {
		if _, _, err := c.conn.Read(c.ctx); err != nil {
			if code := websocket.CloseStatus(err); code != websocket.StatusNormalClosure {
				c.t.Errorf("the connection ended with %v, want 1000", err)
			}
			return
		}
	}
}

// expect reads messages up to the next one of a type; before it only heartbeats may come.
func expect[F wire.Frame](c *scriptedConn) F {
	c.t.Helper()
	for {
		_, text := c.next()
		var want F
		switch got, err := wire.TypeOf(text); {
		case err != nil:
			c.t.Fatal(err)
		case got == want.Type():
			if err := wire.Decode(text, &want); err != nil {
				c.t.Fatal(err)
			}
			return want
		case got != wire.NodeHeartbeat{}.Type():
			c.t.Fatalf("received %s, want %s", text, want.Type())
		}
	}
}

// expectEqual reads messages up to the next one of the type of want, and compares it.
func expectEqual[F wire.Frame](c *scriptedConn, want F) {
	c.t.Helper()
	if diff := cmp.Diff(want, expect[F](c)); diff != "" {
		c.t.Fatalf("%s (-want +got):\n%s", want.Type(), diff)
	}
}

// expectText reads messages up to the next result, which must have a text.
func expectText(c *scriptedConn, job wire.ActiveJob, want string) {
	c.t.Helper()
	var texts struct {
		TextSrc string `json:"text_src"`
	}
	got := expect[wire.JobResult](c)
	if err := json.Unmarshal(got.Result, &texts); err != nil || got.ActiveJob != job || texts.TextSrc != want {
		c.t.Fatalf("received %+v with %s, want %+v with %q (%v)", got.ActiveJob, got.Result, job, want, err)
	}
}

// A node lists its jobs when it registers again, takes the rest of their audio, and sends outcomes until they are acknowledged.
func TestExampleNodeProtocol(t *testing.T) {
	t.Parallel()
	for lang := range languages {
		t.Run(lang, func(t *testing.T) {
			t.Parallel()
			s := startScriptedScheduler(t)
			node := startProgram(t, "the node", exampleCommand(t, lang, "node", "--url", s.url, "--id", "n-0"))
			first, second, third := wire.ActiveJob{JobID: "job-1", AttemptID: 1}, wire.ActiveJob{JobID: "job-2", AttemptID: 3}, wire.ActiveJob{JobID: "job-3", AttemptID: 1}
			assign := func(job wire.ActiveJob) wire.JobAssign {
				return wire.JobAssign{JobID: job.JobID, AttemptID: job.AttemptID, SrcLang: "en", TgtLang: "es", TimeoutMS: 60_000, Audio: &wire.Audio{}}
			}
			register := func(c *scriptedConn, token string, active []wire.ActiveAttempt, ack wire.NodeRegisterAck) {
				t.Helper()
				in := expect[wire.NodeRegister](c)
				if diff := cmp.Diff(active, in.Active); diff != "" || in.ResumeToken != token || in.NodeID != "n-0" {
					t.Fatalf("registered as %s with token %q and active (-want +got):\n%s", in.NodeID, in.ResumeToken, diff)
				}
				ack.NodeID, ack.Epoch, ack.HeartbeatIntervalMS, ack.Status = in.NodeID, 7, 60_000, "registered"
				c.send(ack)
			}

			c := s.accept() // the audio of a job is cut off
			register(c, "", []wire.ActiveAttempt{}, wire.NodeRegisterAck{ResumeToken: "token-1"})
			c.send(assign(first), assign(first))
			expectEqual(c, wire.JobAck{ActiveJob: first})
			expectEqual(c, wire.JobAck{ActiveJob: first})
			c.sendChunk(first, 0, false, "he")
			c.send(wire.JobCancel{ActiveJob: third}) // the answer shows that the chunk was read
			expectEqual(c, wire.JobCancelled{ActiveJob: third})
			c.cut()

			c = s.accept() // the result is not acknowledged
			register(c, "token-1", []wire.ActiveAttempt{{ActiveJob: first, AudioChunks: 1}}, wire.NodeRegisterAck{ResumeToken: "token-2"})
			expectEqual(c, wire.JobAck{ActiveJob: first})
			c.sendChunk(first, 0, false, "he")
			c.sendChunk(first, 1, true, "llo")
			expectText(c, first, "5 bytes of en, sha256 2cf24dba") // of hello
			c.cut()

			c = s.accept() // the result is acknowledged; the audio of another job is cut off
			register(c, "token-2", []wire.ActiveAttempt{{ActiveJob: first, AudioChunks: 2}}, wire.NodeRegisterAck{ResumeToken: "token-3"})
			expectEqual(c, wire.JobAck{ActiveJob: first})
			expectText(c, first, "5 bytes of en, sha256 2cf24dba") // of hello
			c.send(wire.JobResultAck{ActiveJob: first, Accepted: true}, assign(second))
			expectEqual(c, wire.JobAck{ActiveJob: second})
			c.cut()

			c = s.accept() // the rest of the audio is not here
			register(c, "token-3", []wire.ActiveAttempt{{ActiveJob: second}}, wire.NodeRegisterAck{ResumeToken: "token-4", NoAudio: []wire.ActiveJob{second}})
			expectEqual(c, wire.JobAck{ActiveJob: second})
			expectEqual(c, wire.JobFail{ActiveJob: second, Reason: "AUDIO_LOST"})
			c.send(wire.JobResultAck{ActiveJob: second, Accepted: true}, wire.GoAway{Reason: "test", ReconnectMS: 1})
			c.expectClose()

			c = s.accept() // the node is drained, and stops
			register(c, "token-4", []wire.ActiveAttempt{}, wire.NodeRegisterAck{ResumeToken: "token-5"})
			c.send(wire.Drain{Drained: true}, assign(third))
			expectEqual(c, wire.JobReject{ActiveJob: third, Reason: "NODE_BUSY"})
			node.signal(syscall.SIGTERM)
			expect[wire.NodeLeave](c)
			c.expectClose()
			if err := node.WaitExit(waitTimeout); err != nil {
				t.Error(err)
			}
		})
	}
}

// expectAudio reads the frames of audio from one number to another and returns what they hold. The last one ends an utterance.
func (c *scriptedConn) expectAudio(first, last int64) []byte {
	c.t.Helper()
	var audio []byte
	for seq := first; seq < last; seq++ {
		kind, frame := c.next()
		if kind != websocket.MessageBinary || binary.BigEndian.Uint64(frame) != uint64(seq) {
			c.t.Fatalf("received %q, want audio frame %d", frame, seq)
		}
		audio = append(audio, frame[8:]...)
	}
	chunk := expect[wire.AudioChunk](c)
	if !chunk.IsFinal || chunk.Seq != last {
		c.t.Fatalf("received frame %d (final: %t), want %d, which ends the utterance", chunk.Seq, chunk.IsFinal, last)
	}
	return append(audio, chunk.Data...)
}

// A session sends audio again from the frame that the scheduler asks for, and session_end; it ignores a result that comes again, and
// reports one that is lost.
func TestExampleSessionProtocol(t *testing.T) {
	t.Parallel()
	for lang := range languages {
		t.Run(lang, func(t *testing.T) {
			t.Parallel()
			s := startScriptedScheduler(t)
			utterances := [][]byte{noise(250), noise(400)} // frames 1 to 3, and 4 to 7
			session := &exampleSession{
				program: startProgram(t, "the session", exampleCommand(t, lang, "session", "--url", s.url, "--mode", "manual",
					writeFile(t, utterances[0]), writeFile(t, utterances[1]))),
				want: []exampleResult{
					{Utterance: 0, TextSrc: "one", TextTgt: "uno"}, {Utterance: 1, Error: "RESULT_LOST"}, {Utterance: 2, TextSrc: "two", TextTgt: "dos"},
				},
			}
			checkAudio := func(want, got []byte) {
				t.Helper()
				if !bytes.Equal(want, got) {
					t.Fatalf("received %d bytes of audio, want the %d bytes of the file", len(got), len(want))
				}
			}
			results := []wire.SessionResult{
				{Seq: 1, UtteranceIndex: 0, FirstSeq: 1, LastSeq: 3, TextSrc: "one", TextTgt: "uno"},
				{Seq: 3, UtteranceIndex: 2, FirstSeq: 4, LastSeq: 7, TextSrc: "two", TextTgt: "dos"},
			}
			resume := wire.SessionResume{SessionID: "s-1", LastSeq: 1, KeepaliveMS: 1500}

			c := s.accept() // the connection is lost in the second utterance
			start := expect[wire.SessionStart](c)
			resume.ResumeToken = start.ResumeToken
			if start.Audio.Framing != wire.FramingNumbered || len(start.ResumeToken) < 16 || start.Segmentation.Mode != "manual" {
				t.Fatalf("started with %+v", start)
			}
			c.send(wire.SessionStarted{SessionID: "s-1", ResumeToken: start.ResumeToken, Limits: wire.SessionLimits{BufferedMS: 10_000}})
			checkAudio(utterances[0], c.expectAudio(1, 3))
			c.send(wire.UtteranceCommitted{UtteranceIndex: 0, FirstSeq: 1, LastSeq: 3}, results[0], results[0])
			for acknowledged := false; !acknowledged; { // after some audio of the second utterance
				_, message := c.next()
				acknowledged = bytes.Contains(message, []byte(`"result_ack"`))
			}
			c.cut()

			c = s.accept() // the connection is lost after session_end
			expectEqual(c, resume)
			c.send(wire.SessionResumed{SessionID: "s-1", Recovered: true, NextAudioSeq: 2, LastSeq: 1}) // 2 and 3 belong to an ended utterance
			checkAudio(utterances[1], c.expectAudio(4, 7))
			expect[wire.SessionEnd](c)
			c.cut()

			c = s.accept() // another instance has neither the audio of the second utterance nor one of the results
			expectEqual(c, resume)
			c.send(wire.SessionResumed{SessionID: "s-1", NextAudioSeq: 4, LastSeq: 2})
			checkAudio(utterances[1], c.expectAudio(4, 7))
			expect[wire.SessionEnd](c)
			c.send(wire.UtteranceCommitted{UtteranceIndex: 2, FirstSeq: 4, LastSeq: 7}, results[1])
			expectEqual(c, wire.SessionResultAck{Seq: 3})
			c.send(wire.SessionEnded{SessionID: "s-1", Utterances: 3, Results: 3})
			c.expectClose()
			session.check()
		})
	}
}

// When nothing comes any more over a connection with keepalives, a node and a session leave it without waiting for the answer to a close,
// and go on over another.
func TestExampleLeavesSilentInstance(t *testing.T) {
	t.Parallel()
	for lang := range languages {
		t.Run(lang, func(t *testing.T) {
			t.Parallel()
			s := startScriptedScheduler(t)
			startProgram(t, "the node", exampleCommand(t, lang, "node", "--url", s.url, "--id", "n-0"))
			for range 2 {
				c := s.accept() // which reads nothing after the first message, and so answers no close
				c.send(wire.NodeRegisterAck{NodeID: "n-0", Epoch: 7, HeartbeatIntervalMS: 60_000, Status: "registered", KeepaliveMS: expect[wire.NodeRegister](c).KeepaliveMS})
			}
			s = startScriptedScheduler(t)
			startProgram(t, "the session", exampleCommand(t, lang, "session", "--url", s.url))
			c := s.accept()
			start := expect[wire.SessionStart](c)
			c.send(wire.SessionStarted{SessionID: "s-1", ResumeToken: start.ResumeToken, Limits: wire.SessionLimits{BufferedMS: 10_000}, KeepaliveMS: start.KeepaliveMS})
			expectEqual(s.accept(), wire.SessionResume{SessionID: "s-1", ResumeToken: start.ResumeToken, KeepaliveMS: 1500})
		})
	}
}
