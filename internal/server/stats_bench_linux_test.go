package server_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// BenchmarkStatsHandler is one GET /api/v1/stats through all that is between net/http and the snapshot, without the network.
func BenchmarkStatsHandler(b *testing.B) {
	ts := startScheduler(b)
	ts.registerNode("n1", nil)
	ts.waitForStats()
	req := httptest.NewRequestWithContext(b.Context(), http.MethodGet, "http://localhost/api/v1/stats", nil)
	w := &discardWriter{header: make(http.Header)}
	b.ReportAllocs()
	for b.Loop() {
		clear(w.header)
		if ts.scheduler.Server.Handler().ServeHTTP(w, req); w.status != http.StatusOK {
			b.Fatal(w.status)
		}
	}
}

// discardWriter is a response writer that keeps only the status.
type discardWriter struct {
	header http.Header
	status int
}

func (w *discardWriter) Header() http.Header            { return w.header }
func (w *discardWriter) WriteHeader(status int)         { w.status = status }
func (*discardWriter) Write(body []byte) (int, error)   { return len(body), nil }
func (*discardWriter) SetWriteDeadline(time.Time) error { return nil }

// BenchmarkStatsHTTP compares GET /api/v1/stats with a handler that answers the same bytes: both over a connection that is kept, by turns, in
// one run. It reports the CPU time of this process for a request of each, the client's part included, and their ratio.
func BenchmarkStatsHTTP(b *testing.B) {
	ts := startScheduler(b)
	langs := []string{"en", "zh", "de", "fr", "es", "it", "pt", "ru", "ja", "ko", "ar", "hi", "th", "vi", "tr"}
	ts.registerNode("n1", object{"asr_langs": langs, "semantic_langs": langs, "tts_langs": langs, "nmt_pairs": nil})
	body := ts.waitForStats().body
	for began := time.Now(); len(body) < 8<<10 && time.Since(began) < time.Minute; body = ts.waitForStats().body { // with the directions of the node
		time.Sleep(100 * time.Millisecond)
	}
	constant := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = w.Write(body)
	})}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- constant.Serve(l) }()
	defer func() {
		_ = constant.Close()
		<-served
	}()
	stats, base := dialKept(b, ts.url[len("http://"):]), dialKept(b, l.Addr().String())
	const turn = 200 // requests of each between two measurements
	var took [2]time.Duration
	requests := 0
	for b.Loop() {
		for i, c := range []*keptConn{base, stats} {
			began := cpuTime(b)
			for range turn {
				c.get(b)
			}
			took[i] += cpuTime(b) - began
		}
		requests += turn
	}
	perRequest := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / float64(requests) }
	b.ReportMetric(perRequest(took[0]), "constant-ns/request")
	b.ReportMetric(perRequest(took[1]), "stats-ns/request")
	b.ReportMetric(float64(took[1])/float64(took[0]), "stats/constant")
	b.ReportMetric(float64(len(body)), "body-bytes")
	b.ReportMetric(0, "ns/op")
}

// cpuTime is the CPU time that this process has used.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// keptConn is a client that costs little: it sends the same request over one connection, and reads the answers to their ends.
type keptConn struct {
	conn    net.Conn
	read    *bufio.Reader
	request []byte
}

func dialKept(b *testing.B, address string) *keptConn {
	b.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close() })
	return &keptConn{conn, bufio.NewReaderSize(conn, 64<<10), fmt.Appendf(nil, "GET /api/v1/stats HTTP/1.1\r\nHost: %s\r\n\r\n", address)}
}

// get sends the request and reads the answer.
func (c *keptConn) get(b *testing.B) {
	if _, err := c.conn.Write(c.request); err != nil {
		b.Fatal(err)
	}
	resp, err := http.ReadResponse(c.read, nil)
	if err != nil || resp.StatusCode != http.StatusOK {
		b.Fatal(resp, err)
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		b.Fatal(err)
	}
	_ = resp.Body.Close()
}
