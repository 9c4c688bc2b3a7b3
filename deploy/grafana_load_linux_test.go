package deploy_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lingua-scheduler/lingua/client"
	"github.com/lingua-scheduler/lingua/internal/lab"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/node"
	"github.com/lingua-scheduler/lingua/test/fleet"
	"github.com/lingua-scheduler/lingua/wire"
)

// liveLoad is nodes, sessions and requests that make everything happen that a dashboard shows, the bad things above all.
type liveLoad struct {
	*composeStack
	entries []string // URLs of instances
}

// liveSettings make bad things happen soon.
var liveSettings = []string{
	"LINGUA_SCHEDULER_DISPATCH_ACK_TIMEOUT_MS=500", "LINGUA_SCHEDULER_DISPATCH_ATTEMPT_TIMEOUT_MS=2000",
	"LINGUA_SCHEDULER_OBSERVABILITY_PATH_WARN_MS=1", "LINGUA_SCHEDULER_MODEL_NOT_AVAILABLE_NODE_RATE_PER_MINUTE=12",
	"LINGUA_SCHEDULER_MODEL_NOT_AVAILABLE_RATE_WINDOW_SECONDS=5", "LINGUA_SCHEDULER_PHASE3_ENABLED=true", "LINGUA_SCHEDULER_PHASE3_POOL_COUNT=3",
}

// run produces the load until the context ends.
func (l *liveLoad) run(ctx context.Context) {
	var all sync.WaitGroup
	worker := func(id string) *lab.Worker {
		w := &lab.Worker{JobDuration: lab.LogNormal(50*time.Millisecond, 0.3)}
		switch id {
		case "sim-fails":
			w.Fail = 0.5
		case "sim-hangs":
			w.Reject, w.Hang = 0.2, 0.1
		}
		return w
	}
	for i, id := range []string{"sim-good", "sim-fine", "sim-fails", "sim-hangs", "sim-lacks"} {
		all.Go(func() { l.runNode(ctx, l.entries[i%len(l.entries)], id, 4, []string{"en", "de", "zh"}, worker(id)) })
	}
	all.Go(func() { l.runNode(ctx, l.entries[0], "sim-small", 1, []string{"fr", "it"}, worker("")) })
	for i := range 8 {
		all.Go(func() { l.waitInLine(ctx, l.entries[i%2], i) })
	}
	for i := range 6 {
		all.Go(func() {
			for ctx.Err() == nil {
				if l.runSession(ctx, l.entries[(i+1)%len(l.entries)]) != nil {
					run.SleepJitter(ctx, 100*time.Millisecond, 0.5) // the instance or Redis is down
				}
			}
		})
	}
	all.Go(func() {
		for n := 0; run.SleepJitter(ctx, 100*time.Millisecond, 0.5); n++ {
			l.sendRequests(l.entries[n%len(l.entries)], n)
		}
	})
	all.Wait()
}

// runNode connects a node. sim-lacks reports a service as missing every other time.
func (l *liveLoad) runNode(ctx context.Context, url, id string, slots int, langs []string, w *lab.Worker) {
	_, token, _ := strings.Cut(strings.TrimSpace(text(l.t, filepath.Join(l.keys, "node.env"))), "=")
	var services []wire.Service
	for _, s := range lab.DemoServices() {
		services = append(services, wire.Service{ServiceID: s.ServiceID, Version: s.Versions[0], Type: s.Type, Status: "ready"})
	}
	services = append(services, wire.Service{ServiceID: "extra", Version: "1", Type: "extra", Status: "ready"}) // no job needs it
	_ = node.Run(ctx, node.Config{                                                                              // the error is that of the cancelled context
		URL: url, URLs: l.entries, ID: id, Token: token, Slots: slots, Log: slog.New(slog.DiscardHandler), ShutdownTimeout: 100 * time.Millisecond,
		Declaration: wire.Declaration{SemanticLangs: langs, ASRLangs: langs, TTSLangs: langs, InstalledServices: services},
	}, func(ctx context.Context, job *node.Job) (node.Result, error) {
		if id == "sim-lacks" && rand.IntN(2) == 0 {
			return node.Result{}, node.NotAvailableError{Service: "extra", Version: "1", Reason: "not downloaded"}
		}
		return w.Do(ctx, job)
	})
}

// waitInLine dispatches jobs for a node that is always full, each after the one before, for one of two tenants.
func (l *liveLoad) waitInLine(ctx context.Context, url string, caller int) {
	for n := 0; ctx.Err() == nil; n++ {
		body := fmt.Sprintf(`{"request_id": "line-%d-%d", "session_id": "caller", "tenant_id": %q, "src_lang": "fr", "tgt_lang": "it", "audio_ref": "blob://hello", "options": {"max_wait_ms": 5000}}`,
			caller, n, []string{"acme", "beta"}[caller%2])
		if l.request("POST", url+"/v1/dispatch/f2f", "operator.key", body, nil) != nil {
			run.SleepJitter(ctx, 100*time.Millisecond, 0.5) // the instance or Redis is down
		}
	}
}

// runSession sends a few utterances in one session.
func (l *liveLoad) runSession(ctx context.Context, url string) error {
	var minted wire.SessionTokenResponse
	if err := l.request("POST", url+"/v1/sessions", "operator.key", "{}", &minted); err != nil {
		return err
	}
	s, err := fleet.Start(ctx, client.Config{
		URL: url, URLs: l.entries, Token: minted.Token, Start: wire.SessionStart{Langs: []string{"en", "de"}, Partials: true},
	})
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }()
	for i := range 8 {
		if err := s.Begin(wire.UtteranceStart{SrcLang: []string{"en", "de"}[i%2]}); err != nil {
			return err
		}
		var failed *wire.Error
		if _, err := s.Speak(lab.Tone(100 * time.Millisecond)); err != nil && !errors.As(err, &failed) {
			return err
		}
	}
	if err := s.End(); err != nil {
		return err
	}
	for e, err := range s.Events() {
		if _, ended := e.(client.SessionEnded); ended || err != nil {
			return err
		}
	}
	return nil
}

// sendRequests sends what operators and callers send, and what should be refused. It ignores errors: some are wanted, and an instance or
// Redis may be down.
func (l *liveLoad) sendRequests(url string, n int) {
	_ = l.request("GET", url+"/api/v1/stats", "operator.key", "", nil)
	_ = l.request("GET", url+"/metrics", "", "", nil) // without a key
	job := wire.DispatchResponse{JobID: "job-unknown"}
	dispatch := `{"request_id": "live-%d", "session_id": "caller", "src_lang": %q, "tgt_lang": "zh", "audio_ref": "blob://hello"}`
	_ = l.request("POST", url+"/v1/dispatch/f2f", "operator.key", fmt.Sprintf(dispatch, n, "en"), &job)
	_ = l.request("POST", url+"/v1/dispatch/f2f", "operator.key", fmt.Sprintf(dispatch, -n-1, "ko"), nil) // no node can
	lacking := fmt.Sprintf(`{"request_id": "lacking-%d", "session_id": "caller", "src_lang": "en", "tgt_lang": "zh", "audio_ref": "blob://hello", "options": {"required_services": ["none-has-it"]}}`, n)
	_ = l.request("POST", url+"/v1/dispatch/f2f", "operator.key", lacking, nil)
	_ = l.request("POST", url+"/v1/job/fail", "operator.key", fmt.Sprintf(`{"job_id": %q, "attempt_id": 99, "node_id": "sim-good", "reason": "NODE_FAILED"}`, job.JobID), nil)
}

// entriesOf returns the URLs of all instances in the order of their names.
func (s *composeStack) entriesOf() []string {
	var all []string
	for _, name := range s.compose.servicesRunning("serve") {
		all = append(all, s.urls[name])
	}
	return slices.Clip(all)
}
