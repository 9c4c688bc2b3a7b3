package interop

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/lab"
	"github.com/lingua-scheduler/lingua/test/clustertest"
	"github.com/lingua-scheduler/lingua/test/redistest"
	"github.com/lingua-scheduler/lingua/wire"
)

const (
	operatorKey   = "operator-key-of-these-tests"
	nodeToken     = "node-token-of-these-tests"
	sessionSecret = "session-secret-of-these-tests-0123456789"
)

// testCluster is some instances with one store, with keys as in production.
type testCluster struct {
	t         *testing.T
	instances []*clustertest.Instance
	nodes     []*program
	http      *http.Client
}

// startCluster starts instances with one Redis and default settings, but for some in the form of environment variables.
func startCluster(t *testing.T, instances int, settings ...string) *testCluster {
	t.Helper()
	skipShort(t)
	requireModules(t, "js")
	return startInstances(t, redistest.Start(t).URL(), instances, settings...)
}

// requireModules checks that the dependencies of programs in JavaScript are installed.
func requireModules(t *testing.T, dir string) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(dir, "node_modules", "ws")); err != nil {
		t.Fatalf("the dependencies of the programs in JavaScript are not installed; install them with: make tools (%v)", err)
	}
}

// startInstances starts instances with a store and with settings in the form of environment variables.
func startInstances(t *testing.T, store string, instances int, settings ...string) *testCluster {
	t.Helper()
	c := &testCluster{t: t, http: &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}}
	binary := scheduler(t)
	for n := range instances {
		c.instances = append(c.instances, c.launchInstance(binary, store, n, settings))
	}
	for _, i := range c.instances {
		if err := i.WaitReady(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// launchInstance starts an instance, which may not be ready yet. The test fails if the instance has a data race.
func (c *testCluster) launchInstance(binary, store string, number int, settings []string) *clustertest.Instance {
	c.t.Helper()
	name := fmt.Sprintf("instance-%d", number)
	logPath := filepath.Join(c.t.TempDir(), name+".log")
	c.t.Cleanup(func() { // after the instance was killed
		if text, err := os.ReadFile(logPath); err == nil && bytes.Contains(text, []byte("DATA RACE")) {
			c.t.Errorf("the log of %s:\n%s", name, text)
		}
	})
	i := clustertest.NewInstance(c.t, name, binary, logPath)
	i.Args = []string{"--store", store}
	i.Env = append([]string{
		"LINGUA_AUTH_OPERATOR_KEYS=" + operatorKey, "LINGUA_AUTH_NODE_TOKENS=n-*=" + nodeToken, "LINGUA_AUTH_SESSION_SECRET=" + sessionSecret,
	}, settings...)
	if err := i.Launch(); err != nil {
		c.t.Fatal(err)
	}
	return i
}

// terminate sends SIGTERM to an instance.
func (c *testCluster) terminate(i *clustertest.Instance) {
	c.t.Helper()
	if err := i.Process.Signal(syscall.SIGTERM); err != nil {
		c.t.Fatal(err)
	}
}

// checkExit waits until a terminated instance has exited without an error.
func (c *testCluster) checkExit(i *clustertest.Instance) {
	c.t.Helper()
	if err := i.Process.WaitExit(waitTimeout); err != nil {
		c.t.Errorf("the terminated instance: %v", err)
	}
}

// addresses returns the addresses of all instances, starting with one.
func (c *testCluster) addresses(first int) []string {
	var list []string
	for n := range c.instances {
		list = append(list, c.instances[(first+n)%len(c.instances)].Addr())
	}
	return list
}

// nodeScript is the argument of js/run-node.js.
type nodeScript struct {
	Addresses    []string `json:"addresses"`
	Token        string   `json:"token"`
	NodeID       string   `json:"node_id"`
	Slots        int      `json:"slots"`
	WorkMS       int      `json:"work_ms"`
	NeverAnswers bool     `json:"never_answers,omitempty"`
}

// startNode starts a node on one instance and waits until it is registered.
func (c *testCluster) startNode(first int, s nodeScript) *program {
	c.t.Helper()
	s.Addresses, s.Token, s.NodeID = c.addresses(first), nodeToken, fmt.Sprintf("n-%d", len(c.nodes))
	if s.Slots == 0 {
		s.Slots = 8
	}
	p := startScript(c.t, s.NodeID, "run-node.js", s)
	c.nodes = append(c.nodes, p)
	p.waitEvent("registered", nil)
	return p
}

// sessionScript is the argument of js/run-session.js.
type sessionScript struct {
	Addresses      []string    `json:"addresses"`
	Token          string      `json:"token"`
	SessionID      string      `json:"session_id"`
	Seed           int         `json:"seed"`
	Named          bool        `json:"named"`
	InChunks       bool        `json:"in_chunks"`       // sends audio in audio_chunk instead of binary frames
	UnorderedPongs bool        `json:"unordered_pongs"` // answers a ping before it sends due audio
	OtherInstance  bool        `json:"other_instance"`  // resumes on another instance after every lost connection
	DropsAudio     bool        `json:"drops_audio"`     // drops its audio at the commit
	Utterances     []utterance `json:"utterances"`
}

type utterance struct {
	MS      int    `json:"ms"`
	End     string `json:"end"`                // final: explicitly; pause: by sending nothing
	StallMS int    `json:"stall_ms,omitempty"` // sends no audio for this time halfway, while pings are answered
}

// startSession starts a session with a token of its own. Without addresses it uses those of all instances.
func (c *testCluster) startSession(t *testing.T, name string, s sessionScript) *program {
	t.Helper()
	s.SessionID, s.Token, s.Seed = name, c.mint(name), rand.IntN(1<<20)
	if s.Utterances == nil {
		s.Utterances = utterances
	}
	if s.Addresses == nil {
		s.Addresses = c.addresses(0)
	}
	return startScript(t, name, "run-session.js", s)
}

// mint creates a session token, as the backend of an operator does.
func (c *testCluster) mint(session string) string {
	c.t.Helper()
	var minted wire.SessionTokenResponse
	c.call(http.MethodPost, "/v1/sessions", wire.SessionTokenRequest{SessionID: session, TTLSeconds: 600}, &minted)
	return minted.Token
}

// call sends a request of the operator to the first instance that can be reached, and decodes the answer.
func (c *testCluster) call(method, path string, body, answer any) {
	c.t.Helper()
	for _, i := range c.instances {
		api := lab.API{URL: i.URL(), Token: operatorKey, HTTP: c.http}
		err := api.Do(c.t.Context(), method, path, body, answer)
		var unreachable *url.Error
		if errors.As(err, &unreachable) {
			continue
		}
		if err != nil {
			c.t.Fatalf("%s %s: %v", method, path, err)
		}
		return
	}
	c.t.Fatalf("%s %s: no instance can be reached", method, path)
}
