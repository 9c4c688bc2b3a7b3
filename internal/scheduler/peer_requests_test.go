package scheduler_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/scheduler"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/test/redistest"
	"github.com/lingua-scheduler/lingua/wire"
)

const (
	keyOfOperator = "operator-key-0123456789"
	keyOfMinter   = "minter-key-of-acme-0123456789"
	keyOfViewer   = "viewer-key-0123456789"
	oldPeerSecret = "the-old-secret-of-at-least-32-characters"
	newPeerSecret = "the-new-secret-of-at-least-32-characters"
)

// keyedConfig has keys of several roles, and these secrets of instances.
func keyedConfig(t *testing.T, clusterSecrets ...string) config.Config {
	t.Helper()
	cfg := fastConfig()
	patient(&cfg)
	cfg.Auth.OperatorKeys = []string{keyOfOperator}
	cfg.Auth.SessionSecret = "a secret of at least thirty-two characters"
	cfg.Auth.ClusterSecrets = clusterSecrets
	withoutSecret := false // nodes are not what these tests are about
	cfg.Auth.RequireNodeSecret = &withoutSecret
	for secret, k := range map[string]config.Key{keyOfMinter: {Name: "acme-backend", Role: "minter", Tenant: "acme"}, keyOfViewer: {Name: "grafana", Role: "viewer"}} {
		k.SHA256 = []string{fmt.Sprintf("%x", sha256.Sum256([]byte(secret)))}
		cfg.Auth.Keys = append(cfg.Auth.Keys, k)
	}
	return cfg
}

// getAs sends GET with a credential, again while Redis does not answer in time on a busy machine, and returns the status and the body.
func getAs(t *testing.T, url, key string, header http.Header) (status int, body []byte) {
	t.Helper()
	waitUntil(t, url, waitLimit, func() bool {
		status, body = getOnceAs(t, url, key, header)
		return status != http.StatusServiceUnavailable
	})
	return status, body
}

func getOnceAs(t *testing.T, url, key string, header http.Header) (status int, body []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	for name, values := range header {
		req.Header[name] = values
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err = io.ReadAll(resp.Body); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, body
}

// listJobs lists the jobs that have ended, as an instance shows them to a key.
func listJobs(t *testing.T, at *instance, key string) (list wire.JobList) {
	t.Helper()
	status, body := getAs(t, at.peer.URL+"/v1/jobs?state=DONE", key, nil)
	if err := json.Unmarshal(body, &list); err != nil || status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	return list
}

// finishJobs lets a job of each of two tenants end at an instance, and returns their ids.
func finishJobs(t *testing.T, at *instance, node string) (jobs []string) {
	t.Helper()
	api := *at.peer
	api.Token = keyOfOperator
	post := func(path string, in, out any) error { return api.Post(t.Context(), path, in, out) }
	callback := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }))
	t.Cleanup(callback.Close)
	slots := 4
	url := callback.URL
	in := wire.RegisterRequest{NodeID: node, Declaration: wire.Declaration{SemanticLangs: []string{"en", "zh"}, MaxConcurrentJobs: &slots, CallbackURL: &url}}
	retryUntilOK(t, func() error { return post("/v1/node/register", in, new(wire.RegisterResponse)) })
	for _, tenant := range []string{"acme", "beta"} {
		var placed wire.DispatchResponse
		ask := wire.DispatchRequest{SessionID: "session-1", SrcLang: "en", TgtLang: "zh", TenantID: tenant}
		ask.Options.PreferredNodeID = &node
		waitUntil(t, "a slot", waitLimit, func() bool { return post("/v1/dispatch/f2f", ask, &placed) == nil })
		done := wire.JobDoneRequest{
			JobAckRequest: wire.JobAckRequest{JobID: placed.JobID, AttemptID: placed.AttemptID, NodeID: placed.NodeID},
			Result:        json.RawMessage(`{"text_tgt": "text of ` + tenant + `"}`),
		}
		waitUntil(t, "the result to be accepted", waitLimit, func() bool { return post("/v1/job/done", done, new(wire.OKResponse)) == nil })
		jobs = append(jobs, placed.JobID)
	}
	return jobs
}

// TestInstancesAskEachOtherWithTheirOwnSecret: lists contain the jobs of all instances, as much as the caller may see, also while the
// secret is rotated.
func TestInstancesAskEachOtherWithTheirOwnSecret(t *testing.T) {
	t.Parallel()
	url := redistest.Start(t).URL()
	instances := append(startCluster(t, url, keyedConfig(t, newPeerSecret, oldPeerSecret), nil)[:1], startCluster(t, url, keyedConfig(t, oldPeerSecret), nil)[:1]...)
	finishJobs(t, instances[0], "n1")
	finishJobs(t, instances[1], "n2")
	for _, at := range instances {
		for key, want := range map[string]string{keyOfOperator: "4 jobs, 4 texts", keyOfViewer: "4 jobs, 0 texts", keyOfMinter: "2 jobs, 2 texts"} {
			var got string
			waitUntil(t, "all jobs to be listed", waitLimit, func() bool {
				list, texts := listJobs(t, at, key), 0
				for _, job := range list.Jobs {
					if job.Result != nil {
						texts++
					}
				}
				got = fmt.Sprintf("%d jobs, %d texts", len(list.Jobs), texts)
				return got == want && !list.Partial
			})
		}
	}
}

// TestStrangersAddressGetsNoCredential: an address in the store that is not that of an instance gets no credential, and what it gets is
// accepted nowhere else.
func TestStrangersAddressGetsNoCredential(t *testing.T) {
	t.Parallel()
	instances := startCluster(t, redistest.Start(t).URL(), keyedConfig(t, newPeerSecret), nil)
	var mu sync.Mutex
	var stolen http.Header
	stranger := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		stolen = r.Header.Clone()
		stolen.Set("X-Uri", r.RequestURI)
		http.Error(w, "{}", http.StatusTeapot)
	}))
	defer stranger.Close()
	about, err := json.Marshal(map[string]any{"name": "stranger", "url": stranger.URL})
	if err != nil {
		t.Fatal(err)
	}
	if err := instances[0].Store.Announce(t.Context(), store.AnnounceParams{ID: "stranger-12345678", Body: about, TTL: waitLimit}); err != nil {
		t.Fatal(err)
	}
	if list := listJobs(t, instances[0], keyOfOperator); !list.Partial {
		t.Error("an instance did not answer, and the list is not partial")
	}
	mu.Lock()
	defer mu.Unlock()
	if stolen == nil {
		t.Fatal("the stranger was not asked: the test does not cover it")
	}
	for name, values := range stolen {
		if text := strings.Join(values, " "); name == "Authorization" || strings.Contains(text, keyOfOperator) || strings.Contains(text, newPeerSecret) {
			t.Errorf("the stranger got %s: %s", name, text)
		}
	}
	for _, at := range instances {
		if status, body := getAs(t, at.peer.URL+stolen.Get("X-Uri"), "", http.Header{"X-Lingua-Peer": stolen["X-Lingua-Peer"]}); status != http.StatusUnauthorized {
			t.Errorf("an instance accepts what was sent to a stranger: %d %s", status, body)
		}
		if status, _ := getAs(t, at.peer.URL+"/v1/nodes", "", http.Header{"X-Lingua-Peer": stolen["X-Lingua-Peer"]}); status != http.StatusUnauthorized {
			t.Errorf("a route that instances do not ask of each other answers %d", status)
		}
	}
}

// TestWithoutClusterSecret: with keys and without a secret of instances, others are not asked, and that is said.
func TestWithoutClusterSecret(t *testing.T) {
	t.Parallel()
	instances := startCluster(t, redistest.Start(t).URL(), keyedConfig(t), nil)
	finishJobs(t, instances[0], "n1")
	waitUntil(t, "the list to be partial", waitLimit, func() bool { return listJobs(t, instances[1], keyOfOperator).Partial })
	if list := listJobs(t, instances[1], keyOfOperator); len(list.Jobs) != 0 {
		t.Errorf("%d jobs of another instance are listed", len(list.Jobs))
	}
	for secret, warns := range map[string]bool{"": true, newPeerSecret: false} {
		cfg := keyedConfig(t)
		if secret != "" {
			cfg.Auth.ClusterSecrets = []string{secret}
		}
		cfg.Store = redistest.Start(t).URL()
		var log bytes.Buffer
		s, err := scheduler.New(t.Context(), cfg, wire.VersionResponse{}, slog.New(slog.NewTextHandler(&log, nil)), nil)
		if err != nil {
			t.Fatal(err)
		}
		if warned := strings.Contains(log.String(), "auth.cluster_secret is not set"); warned != warns {
			t.Errorf("with the secret %q: %s", secret, log.String())
		}
		if err := s.Store.Close(); err != nil {
			t.Error(err)
		}
	}
}
