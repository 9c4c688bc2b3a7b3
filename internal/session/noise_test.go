package session_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"

	"github.com/lingua-scheduler/lingua/internal/session"
)

const noiseRate = 16_000

// background is noise as a room has it: low-passed, with the hum of the mains, and slowly swelling, at a level in dBFS.
func background(r *rand.Rand, dbfs float64, ms int) []float64 {
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

// addSpeech adds what sounds like speech to a background: voiced syllables, four a second, with gaps between words.
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

func pcm(samples []float64) []byte {
	out := make([]byte, 2*len(samples))
	for i, v := range samples {
		s := int16(max(-1, min(1, v)) * 32767)
		out[2*i], out[2*i+1] = byte(s), byte(s>>8)
	}
	return out
}

// Silence is found whatever the background: each of two sentences is one utterance that has all of it, and the noise
// between them is none.
func TestSilenceIsFoundInNoise(t *testing.T) {
	for _, dbfs := range []float64{-80, -60, -50, -40, -34, -28} {
		for _, frameMS := range []int{20, 100, 200} {
			t.Run(fmt.Sprintf("%.0f dBFS in frames of %d ms", dbfs, frameMS), func(t *testing.T) {
				play(t, func(w *world) {
					s, link := w.start()
					r := rand.New(rand.NewPCG(1, uint64(-dbfs)))
					samples := background(r, dbfs, 12_000)
					addSpeech(samples, 2000, 4000)
					addSpeech(samples, 7000, 9000)
					audio := pcm(samples)
					size := 2 * noiseRate * frameMS / 1000
					for len(audio) > 0 {
						n := min(size, len(audio))
						w.hearInTime(s, audio[:n], frameMS)
						audio = audio[n:]
					}
					synctest.Wait()
					wantCommitted(t, link, "silence", "silence")
					for i, m := range link.heard("utterance_committed") {
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

// Noise alone is no utterance, and what is held of it stays small.
func TestNoiseAloneIsNoUtterance(t *testing.T) {
	for _, dbfs := range []float64{-60, -40, -30} {
		t.Run(fmt.Sprintf("%.0f dBFS", dbfs), func(t *testing.T) {
			play(t, func(w *world) {
				s, link := w.start()
				audio := pcm(background(rand.New(rand.NewPCG(2, uint64(-dbfs))), dbfs, 20_000))
				for len(audio) > 0 {
					n := min(640, len(audio))
					w.hearInTime(s, audio[:n], 20)
					audio = audio[n:]
				}
				synctest.Wait()
				wantCommitted(t, link)
				if held := w.rooms.Audio().Held(); held > 32*500 {
					t.Errorf("%d bytes are held for noise", held)
				}
			})
		})
	}
}

// A configured level of 0 takes nothing for silence.
func TestSilenceLevelZeroFindsNone(t *testing.T) {
	play(t, func(w *world) {
		w.cfg.Silence = 0
		w.over(w.store, w.jobs)
		s, link := w.start()
		w.say(s, tone(300))
		w.say(s, hush(4000))
		synctest.Wait()
		wantCommitted(t, link)
		w.hear(s, session.AudioFrame{Final: true})
		synctest.Wait()
		wantCommitted(t, link, "manual")
	})
}
