package session_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
)

// Speech is not taken for background because that becomes louder after it.
func TestSpeechIsKeptWhenTheBackgroundRises(t *testing.T) {
	play(t, func(w *world) {
		s, link := w.start()
		r := rand.New(rand.NewPCG(3, 3))
		samples := append(background(r, -60, 5000), background(r, -29, 8000)...)
		for i := 4 * noiseRate; i < 5*noiseRate; i++ { // a second of quiet speech before it
			t := float64(i) / noiseRate
			samples[i] += 0.07 * max(0, math.Sin(2*math.Pi*4*t)) * math.Sin(2*math.Pi*220*t)
		}
		audio := pcm(samples)
		for part := range slices.Chunk(audio, 640) {
			w.hearInTime(s, part, 20)
		}
		synctest.Wait()
		if n := len(link.heard("utterance_committed")); n != 1 {
			t.Errorf("%d utterances, want the one that was spoken", n)
		}
	})
}
