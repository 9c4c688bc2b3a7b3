package bench

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/bench/inprocess"
	"github.com/lingua-scheduler/lingua/bench/stats"
	"github.com/lingua-scheduler/lingua/wire"
)

const (
	httpClients = 64
	httpWindow  = time.Second
	httpRounds  = 9
)

// BenchmarkDispatchHTTP compares POST /v1/dispatch/f2f, with the memory store and delivery to a node in the same process,
// with a bare net/http handler that decodes the same body and encodes an answer of the same shape, in turn.
func BenchmarkDispatchHTTP(b *testing.B) {
	s, _ := inprocess.Start(b, 50, 4, false)
	ours := httptest.NewServer(s.Server.Handler())
	defer ours.Close()
	bare := httptest.NewServer(http.HandlerFunc(echo))
	defer bare.Close()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: httpClients, MaxIdleConns: 2 * httpClients}}
	defer client.CloseIdleConnections()

	for b.Loop() {
		var echoed, dispatched []float64
		measureRate(b, client, bare.URL, "", httpWindow/4) // warm-up of both
		measureRate(b, client, ours.URL+"/v1/dispatch/f2f", "", httpWindow/4)
		for range httpRounds {
			echoed = append(echoed, measureRate(b, client, bare.URL, "", httpWindow))
			dispatched = append(dispatched, measureRate(b, client, ours.URL+"/v1/dispatch/f2f", "", httpWindow))
		}
		b.ReportMetric(stats.Median(echoed), "echo/s")
		b.ReportMetric(stats.Median(dispatched), "dispatch/s")
		b.ReportMetric(stats.Median(dispatched)/stats.Median(echoed), "of-echo")
	}
	b.ReportMetric(0, "ns/op")
}

// echo is the ceiling: read, decode, encode, write.
func echo(w http.ResponseWriter, r *http.Request) {
	var in wire.DispatchRequest
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(wire.DispatchResponse{JobID: in.SessionID, NodeID: in.SrcLang, AttemptID: 1})
}

// measureRate has the clients post for a while, with a key unless it is empty, and returns the answers a second.
func measureRate(b *testing.B, client *http.Client, url, key string, d time.Duration) float64 {
	body := []byte(`{"session_id":"room-888","src_lang":"en","tgt_lang":"zh","audio_ref":"blob://a","options":{"require_tts":false,"preferred_node_id":null}}`)
	var done atomic.Int64
	var clients sync.WaitGroup
	began := time.Now()
	for range httpClients {
		clients.Go(func() {
			for time.Since(began) < d {
				req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, url, bytes.NewReader(body))
				if err != nil {
					b.Error(err)
					return
				}
				req.Header.Set("Content-Type", "application/json")
				if key != "" {
					req.Header.Set("Authorization", "Bearer "+key)
				}
				resp, err := client.Do(req)
				if err != nil {
					b.Error(err)
					return
				}
				answer, _ := io.ReadAll(resp.Body)
				resp.Body.Close()
				if resp.StatusCode != http.StatusOK {
					b.Errorf("%s: %s %s", url, resp.Status, answer)
					return
				}
				done.Add(1)
			}
		})
	}
	clients.Wait()
	return float64(done.Load()) / time.Since(began).Seconds()
}
