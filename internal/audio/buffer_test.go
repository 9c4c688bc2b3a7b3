package audio_test

import (
	"sync"
	"testing"

	"github.com/lingua-scheduler/lingua/internal/audio"
	"github.com/lingua-scheduler/lingua/internal/core"
)

func TestBufferIsBounded(t *testing.T) {
	t.Parallel()
	b := audio.NewBuffer(10)
	if !b.Reserve(6) || !b.Reserve(4) {
		t.Fatal("bytes within the bound were refused")
	}
	if b.Reserve(1) {
		t.Error("a byte over the bound was accepted")
	}
	b.Release(4)
	if b.Held() != 6 || !b.Reserve(4) {
		t.Errorf("%d bytes are held after a release, want 6", b.Held())
	}
}

func TestBufferClipTakesOverItsReservation(t *testing.T) {
	t.Parallel()
	b := audio.NewBuffer(10)
	clip := &audio.Clip{Data: make([]byte, 6)}
	b.Reserve(6)
	b.Put("j", clip)
	if b.Held() != 6 || b.Clip("j") != clip || b.Clip("other") != nil {
		t.Errorf("%d bytes are held for the clip, want 6", b.Held())
	}
	b.Remove("other")
	b.Remove("j")
	b.Remove("j")
	if b.Held() != 0 || b.Clip("j") != nil {
		t.Errorf("%d bytes are held after the clip was removed", b.Held())
	}
}

// A clip that replaces another of the same job releases the reservation of the one that it replaces.
func TestBufferReplacesAClip(t *testing.T) {
	t.Parallel()
	b := audio.NewBuffer(20)
	for range 2 {
		b.Reserve(6)
		b.Put("j", &audio.Clip{Data: make([]byte, 6)})
	}
	if b.Held() != 6 {
		t.Errorf("%d bytes are held, want 6", b.Held())
	}
}

func TestBufferHasTheAudioOfAJob(t *testing.T) {
	t.Parallel()
	b := audio.NewBuffer(10)
	b.Put("held", &audio.Clip{})
	for name, c := range map[string]struct {
		job  core.Job
		want bool
	}{
		"a session's job with its audio":    {core.Job{ID: "held", Spec: core.Spec{AudioRef: audio.RefPrefix + "s/1-3"}}, true},
		"a session's job without its audio": {core.Job{ID: "lost", Spec: core.Spec{AudioRef: audio.RefPrefix + "s/4-6"}}, false},
		"a job with an address":             {core.Job{ID: "http", Spec: core.Spec{AudioRef: "https://example.com/a.wav"}}, true},
		"a job without audio":               {core.Job{ID: "none"}, true},
	} {
		if got := b.Has(&c.job); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestBufferCountsConcurrentReservations(t *testing.T) {
	t.Parallel()
	b := audio.NewBuffer(50)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			for range 100 {
				if b.Reserve(10) {
					if b.Held() > 50 {
						t.Error("more bytes are held than the bound")
					}
					b.Release(10)
				}
			}
		})
	}
	wg.Wait()
	if b.Held() != 0 {
		t.Errorf("%d bytes are held at the end", b.Held())
	}
}
