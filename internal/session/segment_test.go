package session_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingua-scheduler/lingua/internal/session"
	"github.com/lingua-scheduler/lingua/wire"
)

const noiseRate = 16_000

// backgroundNoise returns the noise of a room: low-passed, with the hum of the mains, and slowly swelling, at a level in dBFS.
func backgroundNoise(r *rand.Rand, dbfs float64, ms int) []float64 {
	samples := make([]float64, noiseRate*ms/1000)
	low, sum := 0.0, 0.0
	for i := range samples {
		t := float64(i) / noiseRate
		low += (r.NormFloat64() - low) * 0.2
		swell := 1 + 0.2*math.Sin(2*math.Pi*0.7*t)
		samples[i] = swell * (low + 0.1*math.Sin(2*math.Pi*50*t))
		sum += samples[i] * samples[i]
	}
	scale := math.Pow(10, dbfs/20) / math.Sqrt(sum/float64(len(samples)))
	for i := range samples {
		samples[i] *= scale
	}
	return samples
}

// addSpeech adds a signal like speech to a background: voiced syllables, four a second, with gaps between words.
func addSpeech(samples []float64, fromMS, toMS int) {
	for i := noiseRate * fromMS / 1000; i < noiseRate*toMS/1000; i++ {
		t := float64(i-noiseRate*fromMS/1000) / noiseRate
		envelope := max(0, math.Sin(2*math.Pi*4*t)) // half of the time nothing is voiced
		if int(t*4)%5 == 4 {
			envelope = 0 // between two words
		}
		voice := math.Sin(2*math.Pi*140*t) + 0.7*math.Sin(2*math.Pi*620*t) + 0.4*math.Sin(2*math.Pi*1900*t)
		samples[i] += 0.25 * envelope * voice
	}
}

// encodePCM encodes samples as PCM.
func encodePCM(samples []float64) []byte {
	out := make([]byte, 2*len(samples))
	for i, v := range samples {
		s := int16(max(-1, min(1, v)) * 32767)
		out[2*i], out[2*i+1] = byte(s), byte(s>>8)
	}
	return out
}

// Silence is detected whatever the background: each of two sentences is one whole utterance, and the noise between them is
// none.
func TestSilenceIsDetectedInNoise(t *testing.T) {
	for _, dbfs := range []float64{-80, -60, -50, -40, -34, -28} {
		sentences := sync.OnceValue(func() []byte {
			samples := backgroundNoise(rand.New(rand.NewPCG(1, uint64(-dbfs))), dbfs, 12_000)
			addSpeech(samples, 2000, 4000)
			addSpeech(samples, 7000, 9000)
			return encodePCM(samples)
		})
		for _, frameMS := range []int{20, 100, 200} {
			t.Run(fmt.Sprintf("%.0f dBFS in frames of %d ms", dbfs, frameMS), func(t *testing.T) {
				run(t, func(h *harness) {
					s, conn := h.start()
					audio := sentences()
					size := 2 * noiseRate * frameMS / 1000
					for len(audio) > 0 {
						n := min(size, len(audio))
						h.sendPaced(s, audio[:n], frameMS)
						audio = audio[n:]
					}
					synctest.Wait()
					wantCommitted(t, conn, "silence", "silence")
					for i, m := range conn.received("utterance_committed") {
						from, to := 2000+5000*i, 4000+5000*i
						first := (int(m["first_seq"].(float64)) - 1) * frameMS
						last := int(m["last_seq"].(float64)) * frameMS
						if first > from || last < to || last-first > 2000+1000+500+2*frameMS {
							t.Errorf("utterance %d is from %d to %d ms, the speech from %d to %d", i, first, last, from, to)
						}
					}
				})
			})
		}
	}
}

// Noise alone is no utterance, and little of it is held.
func TestNoiseAloneIsNoUtterance(t *testing.T) {
	for _, dbfs := range []float64{-60, -40, -30} {
		t.Run(fmt.Sprintf("%.0f dBFS", dbfs), func(t *testing.T) {
			run(t, func(h *harness) {
				s, conn := h.start()
				audio := encodePCM(backgroundNoise(rand.New(rand.NewPCG(2, uint64(-dbfs))), dbfs, 20_000))
				for len(audio) > 0 {
					n := min(640, len(audio))
					h.sendPaced(s, audio[:n], 20)
					audio = audio[n:]
				}
				synctest.Wait()
				wantCommitted(t, conn)
				if held := h.registry.AudioBuffer().Held(); held > 32*500 {
					t.Errorf("%d bytes are held for noise", held)
				}
			})
		})
	}
}

// With a configured level of 0 nothing is silence.
func TestSilenceLevelZeroDetectsNone(t *testing.T) {
	run(t, func(h *harness) {
		h.cfg.Silence = 0
		h.restartWith(h.store, h.dispatcher)
		s, conn := h.start()
		h.stream(s, tone(300))
		h.stream(s, silence(4000))
		synctest.Wait()
		wantCommitted(t, conn)
		h.send(s, session.AudioFrame{Final: true})
		synctest.Wait()
		wantCommitted(t, conn, "manual")
	})
}

// Speech is not taken for background because the background becomes louder after it.
func TestSpeechIsKeptWhenTheBackgroundRises(t *testing.T) {
	run(t, func(h *harness) {
		s, conn := h.start()
		r := rand.New(rand.NewPCG(3, 3))
		samples := append(backgroundNoise(r, -60, 5000), backgroundNoise(r, -29, 8000)...)
		for i := 4 * noiseRate; i < 5*noiseRate; i++ { // a second of quiet speech before it
			t := float64(i) / noiseRate
			samples[i] += 0.07 * max(0, math.Sin(2*math.Pi*4*t)) * math.Sin(2*math.Pi*220*t)
		}
		audio := encodePCM(samples)
		for part := range slices.Chunk(audio, 640) {
			h.sendPaced(s, part, 20)
		}
		synctest.Wait()
		if n := len(conn.received("utterance_committed")); n != 1 {
			t.Errorf("%d utterances, want the one with speech", n)
		}
	})
}

func TestUtteranceEndsManually(t *testing.T) {
	run(t, func(h *harness) {
		s, conn := h.start()
		h.commit(s)
		m := conn.last(t, "utterance_committed")
		if m["reason"] != "manual" || m["first_seq"] != 1.0 || m["last_seq"] != 3.0 || m["duration_ms"] != 300.0 || m["utterance_index"] != 0.0 {
			t.Errorf("utterance_committed: %v", m)
		}
		if ack := conn.last(t, "audio_ack"); ack["seq"] != 4.0 { // the end counts as a frame
			t.Errorf("audio_ack: %v", ack)
		}
	})
}

func TestUtteranceEndsAtAPause(t *testing.T) {
	run(t, func(h *harness) {
		s, conn := h.start()
		h.stream(s, tone(500))
		time.Sleep(899 * time.Millisecond) // streaming took 100 more
		synctest.Wait()
		wantCommitted(t, conn)
		time.Sleep(time.Millisecond)
		synctest.Wait()
		wantCommitted(t, conn, "pause")
	})
}

func TestUtteranceEndsInSilence(t *testing.T) {
	run(t, func(h *harness) {
		s, conn := h.start()
		h.stream(s, silence(3000)) // a microphone without a speaker
		h.stream(s, tone(500))
		h.stream(s, silence(900))
		h.stream(s, tone(200)) // a pause that is too short
		wantCommitted(t, conn)
		h.stream(s, silence(1000))
		synctest.Wait()
		wantCommitted(t, conn, "silence")
		if m := conn.last(t, "utterance_committed"); m["duration_ms"] != 300.0+500+900+200+1000 {
			t.Errorf("the leading silence is included: %v", m)
		}
		h.stream(s, silence(5000))
		synctest.Wait()
		wantCommitted(t, conn, "silence")
		if held := h.registry.AudioBuffer().Held(); held > 100_000+32*400 {
			t.Errorf("%d bytes are held for silence", held)
		}
	})
}

func TestUtteranceEndsAtItsMaximumDuration(t *testing.T) {
	run(t, func(h *harness) {
		s, conn := h.start(func(in *wire.SessionStart) { in.Segmentation.MaxUtteranceMS = 2000 })
		h.stream(s, tone(5000))
		synctest.Wait()
		wantCommitted(t, conn, "max_duration", "max_duration")
		if e := s.Audio(session.AudioFrame{Final: true}); e != nil {
			t.Fatal(e)
		}
		synctest.Wait()
		wantCommitted(t, conn, "max_duration", "max_duration", "manual")
	})
}

func TestSilenceAloneIsNoUtterance(t *testing.T) {
	run(t, func(h *harness) {
		s, conn := h.start()
		if e := s.Begin("u-1", "es", ""); e != nil {
			t.Fatal(e)
		}
		if e := s.Audio(session.AudioFrame{Final: true}); e != nil {
			t.Fatal(e)
		}
		h.stream(s, silence(2000))
		time.Sleep(3 * time.Second)
		synctest.Wait()
		wantCommitted(t, conn)
		if held := h.registry.AudioBuffer().Held(); held != 0 {
			t.Errorf("%d bytes are held", held)
		}
	})
}
