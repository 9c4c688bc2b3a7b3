package clustertest

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/child"
)

func TestBalancerSkipsUnreadyInstances(t *testing.T) {
	t.Parallel()
	transport := &http.Transport{DisableKeepAlives: true}
	var instances []*Instance
	ready := make([]atomic.Bool, 2)
	for n := range ready {
		ready[n].Store(true)
		mux := http.NewServeMux()
		mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
			if !ready[n].Load() {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		})
		mux.HandleFunc("/instance", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, n) })
		mux.HandleFunc("/stay", func(w http.ResponseWriter, r *http.Request) {
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		})
		i := &Instance{Name: fmt.Sprint(n), port: child.Port(t), client: &http.Client{Transport: transport, Timeout: time.Second}}
		l, err := net.Listen("tcp", i.Addr())
		if err != nil {
			t.Fatal(err)
		}
		srv := &http.Server{Handler: mux}
		go srv.Serve(l)
		t.Cleanup(func() { srv.Close() })
		instances = append(instances, i)
	}
	b := StartBalancer(t, instances)
	client := &http.Client{Transport: transport}
	served := func() map[string]int {
		by := make(map[string]int)
		for range 40 {
			resp, err := client.Get(b.URL() + "/instance")
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
		t.Errorf("both instances are ready, and they served %v", by)
	}
	seen := func(want bool) {
		t.Helper()
		if err := Eventually(t.Context(), 5*time.Second, func() error {
			if b.Healthy(instances[0]) != want {
				return fmt.Errorf("Healthy returns %v", !want)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	ready[0].Store(false)
	seen(false)
	if by := served(); by["0"] != 0 {
		t.Errorf("the first instance is not ready, and they served %v", by)
	}
	ready[0].Store(true)
	seen(true)

	resp, err := client.Get(b.URL() + "/stay")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if n := b.Cut(func(*BalancedConn) bool { return false }); n != 0 {
		t.Errorf("%d connections were cut that do not match", n)
	}
	if n := b.Cut(func(*BalancedConn) bool { return true }); n == 0 {
		t.Error("no connection was cut")
	}
	if _, err := io.ReadAll(resp.Body); err == nil {
		t.Error("a cut connection ended without an error")
	}
}
