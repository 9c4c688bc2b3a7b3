package server_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/wire"
)

var hostileValues = flag.Int("hostile", 5000, "how many odd values TestHostileLabels sends")

const (
	// maxHostileSeries is how many series an instance may have, whatever it is sent. Its parts: 303 of three capped labels, 153 of directions,
	// the histograms with some 20 buckets for each of their series, and the others, whose labels have fixed values.
	maxHostileSeries = 1500
	// valuesPerSocket is how many values are sent over HTTP for each one that needs a WebSocket, or a job.
	valuesPerSocket = 100
)

// hostile sends odd values into everything that reaches a label.
type hostile struct {
	ts     *testScheduler
	client *http.Client
	node   *callbackNode // the one that gets jobs
}

// post sends a body and drops the answer, whatever it is.
func (h *hostile) post(method, path string, body []byte) {
	req, err := http.NewRequestWithContext(h.ts.t.Context(), method, h.ts.url+path, bytes.NewReader(body))
	if err != nil {
		return // not a value that HTTP can carry
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := h.client.Do(req)
	if err != nil {
		h.ts.t.Errorf("%s %q: %v", method, path, err)
		return
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	if resp.StatusCode == http.StatusInternalServerError {
		h.ts.t.Errorf("%s %q with %q answered 500", method, path, body)
	}
}

func (h *hostile) send(path string, body object) { h.post(http.MethodPost, path, encode(h.ts.t, body)) }

// odd makes a value that no other call makes: plain, long, or with characters that mean something elsewhere.
func odd(i int) string {
	switch i % 5 {
	case 0:
		return fmt.Sprintf("x%d", i)
	case 1:
		return fmt.Sprintf("%s-%d", strings.Repeat("y", i%300), i)
	case 2:
		return fmt.Sprintf("q\"}{,=\n# HELP x%d", i)
	case 3:
		return fmt.Sprintf("ü→%c%d", rune(0x4e00+i%20000), i)
	}
	return fmt.Sprintf("a\x00\x1b[31m%d", i)
}

// language makes an odd but mostly valid language.
func language(i int) string {
	alphabet := "abcdefghijklmnopqrstuvwxyz"
	tag := string([]byte{alphabet[i%26], alphabet[i/26%26], alphabet[i/676%26]})
	if i%3 == 0 {
		return tag + "-" + strings.ToUpper(string([]byte{alphabet[i/7%26], alphabet[i/11%26]}))
	}
	return tag
}

// sources are the ways on which values come in over HTTP.
func (h *hostile) sources() []func(i int) {
	return []func(i int){
		func(i int) { // a node with an odd name, languages and services comes and goes
			id := fmt.Sprintf("node-%d", i)
			h.send("/v1/node/register", nodeDeclaration(object{
				"node_id": id, "semantic_langs": []string{language(i), language(i + 1)}, "nmt_pairs": [][]string{{language(i), language(i + 1)}},
				"installed_services": []object{{"service_id": odd(i), "type": odd(i), "status": odd(i)}}, "callback_url": h.node.srv.URL + "/jobs",
			}))
			h.send("/v1/node/model_not_available", object{"node_id": id, "service_id": odd(i), "version": odd(i), "reason": odd(i)})
			h.post(http.MethodDelete, "/v1/nodes/"+id, nil)
		},
		func(i int) { h.send("/v1/node/register", object{"node_id": odd(i), "health": odd(i)}) },
		func(i int) {
			h.send("/v1/node/model_not_available", object{"node_id": "steady", "service_id": odd(i), "version": odd(i + 1), "reason": odd(i + 2)})
		},
		func(i int) { h.send("/v1/node/model_not_available", object{"node_id": odd(i), "service_id": odd(i)}) },
		func(i int) {
			h.send("/v1/dispatch/f2f", dispatchBody(object{"src_lang": language(i), "tgt_lang": language(i / 3), "session_id": odd(i), "tenant_id": odd(i)}))
		},
		func(i int) {
			h.send("/v1/dispatch/f2f", dispatchBody(object{"options": object{"required_services": []string{odd(i)}, "region": odd(i)}}))
		},
		func(i int) {
			h.send("/v1/job/fail", object{"job_id": odd(i), "node_id": odd(i), "attempt_id": i, "reason": odd(i)})
		},
		func(i int) {
			h.send("/v1/job/done", object{"job_id": fmt.Sprintf("job-%d", i), "node_id": "steady", "attempt_id": 1, "status": odd(i)})
		},
		func(i int) {
			h.send("/v1/node/heartbeat", object{"node_id": "steady", "health": odd(i), "capability_state": object{odd(i): odd(i)}})
		},
		func(i int) {
			h.post([]string{"GET", "PUT", "BREW", "X" + fmt.Sprint(i)}[i%4], "/"+fmt.Sprint(i)+"/"+strings.Map(pathRune, odd(i)), nil)
		},
		func(i int) { // beside what comes over the network: everything of telemetry that takes a value from outside
			m := h.ts.scheduler.Metrics
			m.NAByService.WithLabelValues(odd(i)).Inc()
			m.NAMarked.WithLabelValues(odd(i)).Inc()
			m.NARateLimited.WithLabelValues(odd(i)).Inc()
			m.CountClose(i, true)
		},
	}
}

// pathRune keeps what can be in a path.
func pathRune(r rune) rune {
	if r < 'a' || r > 'z' {
		return '-'
	}
	return r
}

// failJobs dispatches so many jobs and fails every delivery with an odd reason.
func (h *hostile) failJobs(jobs int) {
	for i := range jobs {
		h.send("/v1/dispatch/f2f", dispatchBody(nil))
		for len(h.ts.deliveries) > 0 {
			d := <-h.ts.deliveries
			h.send("/v1/job/fail", object{"job_id": d.JobID, "node_id": d.NodeID, "attempt_id": d.AttemptID, "reason": odd(i), "detail": odd(i)})
		}
	}
}

// connectOddly opens a WebSocket, sends odd messages and closes it with an odd code.
func (h *hostile) connectOddly(i int) {
	path, first := "/ws/session", object{"type": "session_start", "langs": []string{language(i), language(i + 1)}, "options": object{"region": odd(i)}}
	if i%2 == 0 {
		path, first = "/ws/node", object{"type": "node_register", "node_id": fmt.Sprintf("ws-%d", i%50), "semantic_langs": []string{language(i), "en"}, "max_concurrent_jobs": 1}
	}
	t := h.ts.t
	ws, _, err := websocket.Dial(t.Context(), strings.Replace(h.ts.url, "http", "ws", 1)+path, &websocket.DialOptions{Subprotocols: []string{wire.Subprotocol}})
	if err != nil {
		t.Errorf("%s: %v", path, err)
		return
	}
	defer ws.CloseNow()
	_ = ws.Write(t.Context(), websocket.MessageText, encode(t, first))
	_, _, _ = ws.Read(t.Context())
	for _, m := range []object{
		{"type": odd(i)}, {"type": "model_not_available", "service_id": odd(i), "reason": odd(i)}, {"type": "job_fail", "job_id": odd(i), "reason": odd(i)},
		{"type": "utterance_start", "src_lang": language(i), "utterance_id": odd(i)},
	} {
		if ws.Write(t.Context(), websocket.MessageText, encode(t, m)) != nil {
			return // it was closed for that, which is an answer too
		}
	}
	if err := ws.Close(websocket.StatusCode(3000+i%2000), odd(i)[:1]); err != nil && errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%s was not closed: %v", path, err)
	}
}

// run sends all values.
func (h *hostile) run(values int) {
	var senders sync.WaitGroup
	senders.Go(func() { h.failJobs(values / valuesPerSocket) }) // their records are kept for a while, and would be most of what grows
	sources, next := h.sources(), make(chan int)
	for range 2 * runtime.GOMAXPROCS(0) {
		senders.Go(func() {
			for i := range next {
				sources[i%len(sources)](i)
				if i%valuesPerSocket == 0 {
					h.connectOddly(i / valuesPerSocket)
				}
			}
		})
	}
	for i := range values {
		if next <- i; i%1000 == 0 {
			h.ts.log.reset() // it is kept for other tests only, and would be all that grows
		}
	}
	close(next)
	senders.Wait()
	h.ts.log.reset()
}

// series counts the series of all families, with the buckets of classic histograms.
func (ts *testScheduler) series() (n int, byFamily map[string]int) {
	ts.t.Helper()
	byFamily = make(map[string]int)
	_, body := ts.scrape("text/plain;version=0.0.4")
	for line := range strings.Lines(string(body)) {
		if name, _, ok := strings.Cut(line, "{"); ok && !strings.HasPrefix(line, "#") {
			byFamily[name]++
			n++
		} else if !strings.HasPrefix(line, "#") {
			n++
		}
	}
	return n, byFamily
}

func liveHeap() float64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / (1 << 20)
}

// TestHostileLabels: whatever nodes and clients send, the number of series stays below a bound, and the scrape stays valid.
func TestHostileLabels(t *testing.T) {
	t.Parallel()
	ts := startScheduler(t, func(c *config.Config) {
		c.Scheduler.TaskBinding.LeaseSeconds = 60 // how long the records of jobs that have ended are kept
		c.Server.PerAddress = 0
	})
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	defer transport.CloseIdleConnections()
	h := &hostile{ts: ts, client: &http.Client{Transport: transport}, node: ts.registerNode("steady", object{"max_concurrent_jobs": 4})}
	before, _ := ts.series()
	heap := liveHeap()
	h.run(*hostileValues)
	after, byFamily := ts.series()
	t.Logf("%d values: from %d to %d series, and the heap from %.1f to %.1f MiB", *hostileValues, before, after, heap, liveHeap())
	if after > maxHostileSeries {
		t.Errorf("%d series, want at most %d: %v", after, maxHostileSeries, byFamily)
	}
	if byFamily["scheduler_model_na_by_service_total"] != 101 {
		t.Errorf("%d services have a series: the values did not get there", byFamily["scheduler_model_na_by_service_total"])
	}
	if _, body := ts.scrape("application/openmetrics-text;version=1.0.0"); !bytes.HasSuffix(body, []byte("\n# EOF\n")) {
		t.Error("the scrape is not complete")
	}
	if m := ts.counted(); len(m.ModelNotAvailable.ByServiceTop) > 20 || len(m.DispatchExclude.ByReason) > 40 {
		t.Errorf("%+v", m)
	}
}
