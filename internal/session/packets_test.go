package session_test

import (
	"bytes"
	"testing"
	"testing/synctest"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/session"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestPacketsSurviveATakeover: audio that is sent again to another instance has its packets where they were, and what is no
// packet is refused there too.
func TestPacketsSurviveATakeover(t *testing.T) {
	play(t, func(w *world) {
		s, link := w.start(func(in *wire.SessionStart) { in.Audio.Encoding = "opus" })
		packets := [][]byte{{8, 1, 1, 1}, {8, 2}, {8, 3, 3}}
		speak := func(s *session.Connection) {
			for i, packet := range packets {
				if e := s.Audio(session.AudioFrame{Seq: int64(i + 1), Data: packet, Final: i == 2}); e != nil {
					t.Fatal(e)
				}
			}
			synctest.Wait()
		}
		speak(s)
		job := core.JobID(link.last(t, "utterance_committed")["job_id"].(string))
		hold := func(when string) {
			clip := w.rooms.Audio().Clip(job)
			if clip == nil || clip.Chunks() != len(packets) {
				t.Fatalf("%s: %+v", when, clip)
			}
			for i, packet := range packets {
				if !bytes.Equal(clip.Chunk(i), packet) {
					t.Errorf("%s: packet %d is %v", when, i, clip.Chunk(i))
				}
			}
		}
		hold("at first")
		w.move()
		again, _, err := w.resume(s, link.token(t), 0)
		if err != nil {
			t.Fatal(err)
		}
		if e := again.Audio(session.AudioFrame{Seq: 1, Data: []byte{3}}); e == nil || e.Field != "audio" {
			t.Errorf("a frame that is no packet was taken: %v", e)
		}
		speak(again)
		hold("after the takeover")
	})
}
