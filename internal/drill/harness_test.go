package drill

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/child"
)

// TestJournal: what is written is what is read.
func TestJournal(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "journal")
	j, err := openJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	want := []entry{
		{At: 1, Who: "s", What: terminal, Request: "r", Index: 3, Seq: 4, Job: "j", Attempt: 2, Node: "n", OK: true, Bytes: 5},
		{At: 2, Who: "n", What: oversold, Held: 8, Slots: 8, Conn: 2, Code: "x", Recovered: true},
	}
	for _, e := range want {
		j.note(e)
	}
	before := now()
	j.note(entry{Who: "s", What: started})
	if err := j.close(); err != nil {
		t.Fatal(err)
	}
	got, err := readJournal(path)
	if err != nil || len(got) != 3 {
		t.Fatalf("%v, %v", got, err)
	}
	if got[2].At < before || got[2].At > now() {
		t.Errorf("the time of an entry is %d, it is %d", got[2].At, now())
	}
	if diff := cmp.Diff(want, got[:2]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestAlarms are found in logs.
func TestAlarms(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	for text, want := range map[string]int{
		"level=INFO msg=listening\nlevel=WARN msg=x\n":  0,
		"a\nWARNING: DATA RACE\nb\npanic: x\n":          2,
		"level=ERROR msg=\"handler panicked\" job_id=x": 1,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := alarmed(path); len(got) != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// TestBalancer: who is not ready gets nobody as long as there is another, and connections can be cut.
func TestBalancer(t *testing.T) {
	t.Parallel()
	transport := &http.Transport{DisableKeepAlives: true}
	var instances []*instance
	ready := make([]atomic.Bool, 2)
	for n := range ready {
		ready[n].Store(true)
		mux := http.NewServeMux()
		mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
			if !ready[n].Load() {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		})
		mux.HandleFunc("/who", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, n) })
		mux.HandleFunc("/stay", func(w http.ResponseWriter, r *http.Request) {
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		})
		i := &instance{name: fmt.Sprint(n), port: child.Port(t), asks: &http.Client{Transport: transport, Timeout: time.Second}}
		l, err := net.Listen("tcp", i.addr())
		if err != nil {
			t.Fatal(err)
		}
		srv := &http.Server{Handler: mux}
		go srv.Serve(l)
		t.Cleanup(func() { srv.Close() })
		instances = append(instances, i)
	}
	b := startBalancer(t, instances)
	ask := &http.Client{Transport: transport}
	served := func() map[string]int {
		by := make(map[string]int)
		for range 40 {
			resp, err := ask.Get(b.url() + "/who")
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			by[string(body)]++
		}
		return by
	}
	if by := served(); by["0"] == 0 || by["1"] == 0 {
		t.Errorf("both are ready, and they served %v", by)
	}
	seen := func(want bool) {
		t.Helper()
		if err := eventually(t.Context(), 5*time.Second, func() error {
			if b.sees(instances[0]) != want {
				return fmt.Errorf("the balancer sees it: %v", !want)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	ready[0].Store(false)
	seen(false)
	if by := served(); by["0"] != 0 {
		t.Errorf("the first is not ready, and they served %v", by)
	}
	ready[0].Store(true)
	seen(true)

	resp, err := ask.Get(b.url() + "/stay")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if n := b.cut(func(*pair) bool { return false }); n != 0 {
		t.Errorf("%d were cut that were not chosen", n)
	}
	if n := b.cut(func(*pair) bool { return true }); n == 0 {
		t.Error("nobody was cut")
	}
	if _, err := io.ReadAll(resp.Body); err == nil {
		t.Error("the connection that was cut ended well")
	}
}
