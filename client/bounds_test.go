package client_test

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingua-scheduler/lingua/client"
	"github.com/lingua-scheduler/lingua/wire"
)

var errNobody = errors.New("nobody is there")

// transport refuses to connect unless it may.
type transport struct {
	http.RoundTripper
	may func() bool
}

// RoundTrip implements http.RoundTripper.
func (r transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if !r.may() {
		return nil, errNobody
	}
	return r.RoundTripper.RoundTrip(req)
}

func clientWith(t http.RoundTripper, may func() bool) *http.Client {
	return &http.Client{Transport: transport{t, may}}
}

// TestNobody: a scheduler that cannot be reached is an error at once.
func TestNobody(t *testing.T) {
	t.Parallel()
	tries := 0
	_, err := client.Start(t.Context(), client.Config{
		URL:        "http://127.0.0.1:5010",
		HTTPClient: clientWith(nil, func() bool { tries++; return false }),
	})
	if !errors.Is(err, errNobody) || tries != 1 {
		t.Errorf("after %d tries: %v", tries, err)
	}
}

// TestNothingIsLeft of a connection that was refused.
func TestNothingIsLeft(t *testing.T) {
	t.Parallel()
	closed := make(chan struct{})
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			close(closed)
		}
	}
	server.Start()
	defer server.Close()
	if _, err := client.Start(t.Context(), client.Config{URL: server.URL}); err == nil {
		t.Fatal("a session was started")
	}
	select {
	case <-closed:
	case <-time.After(10 * time.Second):
		t.Error("the connection is kept")
	}
}

// TestSlowConsumer: who does not read the events holds up the scheduler, not the memory, and misses nothing.
func TestSlowConsumer(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const pieces, size = 100, 200 << 10
		var sent atomic.Int32
		f := newPipedFake(t, func(p *peer) {
			p.begin(limits)
			for i := range pieces {
				p.speak("job", i, i == pieces-1, strings.Repeat("x", size))
				sent.Add(1)
			}
			p.end(wire.SessionEnded{SessionID: "s-1"})
		})
		l := start(t, f.config())
		synctest.Wait()
		if n := sent.Load(); n < 8<<20/size || n > 8<<20/size+3 {
			t.Errorf("%d MiB were read that nobody wanted", n*size>>20)
		}
		for i := range pieces {
			if got := want[client.SpeechChunk](l); got.Chunk != i {
				t.Fatalf("got piece %d, want %d", got.Chunk, i)
			}
		}
		l.end()
	})
}

// TestWritingToNobody: audio is kept while the connection is lost, up to a bound; then Write waits.
func TestWritingToNobody(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		const second = 192000
		var back atomic.Bool
		var got int
		f := newPipedFake(t, func(p *peer) { p.begin(limits); p.cut() }, func(p *peer) {
			p.resume(0, 1)
			drain(p, func(audio []byte) { got += len(audio) })
		})
		first := true
		cfg := f.config()
		cfg.HTTPClient = clientWith(f.client.Transport, func() bool { ok := first || back.Load(); first = false; return ok })
		cfg.Start.Audio = wire.SessionAudio{SampleRate: 48000, Channels: 2}
		l := start(t, cfg)
		want[client.Reconnecting](l)
		written := make(chan int)
		go func() {
			n := 0
			for range 70 {
				m, err := l.Write(make([]byte, second))
				if n += m; err != nil {
					t.Error(err)
				}
			}
			written <- n
		}()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		select {
		case <-written:
			t.Error("70 s of audio were kept")
		default:
		}
		back.Store(true)
		if n := <-written; n != 70*second {
			t.Errorf("%d bytes were written", n)
		}
		want[client.SessionResumed](l)
		l.end()
		if got != 70*second {
			t.Errorf("%d bytes arrived", got)
		}
	})
}

// TestUnanswered: audio that gets no result is not kept without end.
func TestUnanswered(t *testing.T) {
	t.Parallel()
	f := newFake(t, func(p *peer) {
		p.begin(limits)
		drain(p, func([]byte) {})
	})
	cfg := f.config()
	cfg.Start.Audio = wire.SessionAudio{SampleRate: 48000, Channels: 2}
	l := start(t, cfg)
	n, err := l.Write(make([]byte, 80<<20))
	if !errors.Is(err, client.ErrTooMuchAudio) || n < 63<<20 || n > 65<<20 {
		t.Errorf("%d MiB were written: %v", n>>20, err)
	}
	l.commit() // this much is always possible
	if _, err := l.Write([]byte("aaaa")); !errors.Is(err, client.ErrTooMuchAudio) {
		t.Errorf("writing more: %v", err)
	}
	l.end()
}
