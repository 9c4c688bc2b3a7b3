package interop

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/child"
	"github.com/lingua-scheduler/lingua/internal/redistest"
)

const (
	operatorKey   = "operator-key-of-these-tests"
	nodeToken     = "node-token-of-these-tests"
	sessionSecret = "session-secret-of-these-tests-0123456789"
)

// fleet is some instances over one Redis, with keys as in production and everything else as shipped.
type fleet struct {
	t         *testing.T
	instances []*instance
	nodes     []*process
	http      *http.Client
}

type instance struct {
	*child.Process
	address string
	log     string
}

func startFleet(t *testing.T, instances int) *fleet {
	t.Helper()
	if _, err := os.Stat(filepath.Join("js", "node_modules", "ws")); err != nil {
		t.Fatalf("the dependencies of internal/interop/js are not installed; install them with: make interop (%v)", err)
	}
	f := &fleet{t: t, http: &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}}
	binary, err := lingua()
	if err != nil {
		t.Fatal(err)
	}
	redis := redistest.Start(t)
	for n := range instances {
		f.instances = append(f.instances, f.startInstance(binary, redis.URL(), n))
	}
	for _, i := range f.instances {
		poll(t, i.address+" is ready", func() bool {
			if !i.Alive() {
				t.Fatalf("an instance ended at its start: %v", i.ExitErr)
			}
			answer, err := f.http.Get("http://" + i.address + "/readyz")
			if err != nil {
				return false
			}
			defer answer.Body.Close()
			return answer.StatusCode == http.StatusOK
		})
	}
	return f
}

func (f *fleet) startInstance(binary, store string, number int) *instance {
	f.t.Helper()
	port := child.Port(f.t)
	i := &instance{address: child.Address(port), log: filepath.Join(f.t.TempDir(), fmt.Sprintf("instance-%d.log", number))}
	log, err := os.Create(i.log)
	if err != nil {
		f.t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(binary, "serve", "--listen", i.address, "--store", store)
	cmd.Env = append(os.Environ(),
		"LINGUA_AUTH_OPERATOR_KEYS="+operatorKey, "LINGUA_AUTH_NODE_TOKENS=n-*="+nodeToken, "LINGUA_AUTH_SESSION_SECRET="+sessionSecret)
	cmd.Stdout, cmd.Stderr = log, log
	if i.Process, err = child.Start(cmd); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		i.KillAndWait()
		if text, err := os.ReadFile(i.log); err == nil && (f.t.Failed() || bytes.Contains(text, []byte("DATA RACE"))) {
			f.t.Errorf("the log of %s:\n%s", i.address, text)
		}
	})
	return i
}

// kill ends it without notice.
func (i *instance) kill() { i.KillAndWait() }

// terminate asks it to stop.
func (f *fleet) terminate(i *instance) {
	f.t.Helper()
	if err := i.Signal(syscall.SIGTERM); err != nil {
		f.t.Fatal(err)
	}
}

// stopped waits until a terminated instance has ended well.
func (f *fleet) stopped(i *instance) {
	f.t.Helper()
	select {
	case <-i.Exited:
		if i.ExitErr != nil {
			f.t.Errorf("the instance that was terminated: %v", i.ExitErr)
		}
	case <-time.After(patience):
		f.t.Errorf("the instance that was terminated still runs")
	}
}

// addresses are those of all instances, beginning with the given one.
func (f *fleet) addresses(first int) []string {
	var list []string
	for n := range f.instances {
		list = append(list, f.instances[(first+n)%len(f.instances)].address)
	}
	return list
}

// nodeScript is what js/serve.js reads.
type nodeScript struct {
	Addresses []string `json:"addresses"`
	Token     string   `json:"token"`
	NodeID    string   `json:"node_id"`
	Slots     int      `json:"slots"`
	WorkMS    int      `json:"work_ms"`
	Silent    bool     `json:"silent,omitempty"`
}

// startNode starts a node at one instance and waits until it is registered.
func (f *fleet) startNode(first int, s nodeScript) *process {
	f.t.Helper()
	s.Addresses, s.Token, s.NodeID = f.addresses(first), nodeToken, fmt.Sprintf("n-%d", len(f.nodes))
	if s.Slots == 0 {
		s.Slots = 8
	}
	p := run(f.t, s.NodeID, "serve.js", s)
	f.nodes = append(f.nodes, p)
	p.await("registered", nil)
	return p
}

// sessionScript is what js/speak.js reads.
type sessionScript struct {
	Addresses      []string    `json:"addresses"`
	Token          string      `json:"token"`
	SessionID      string      `json:"session_id"`
	Seed           int         `json:"seed"`
	Named          bool        `json:"named"`
	InChunks       bool        `json:"in_chunks"`       // audio in audio_chunk instead of binary frames
	UnorderedPongs bool        `json:"unordered_pongs"` // a ping is answered before audio that is due is sent
	Elsewhere      bool        `json:"elsewhere"`       // resumes at another instance after every loss
	Forgetful      bool        `json:"forgetful"`       // drops audio at the commit
	Utterances     []utterance `json:"utterances"`
}

type utterance struct {
	MS      int    `json:"ms"`
	End     string `json:"end"`                // final: by hand; pause: by not sending anything
	StallMS int    `json:"stall_ms,omitempty"` // halfway no audio is sent for so long, while pings are answered
}

// startSession starts a session with a token of its own. The addresses are those of all instances if none are given.
func (f *fleet) startSession(t *testing.T, name string, s sessionScript) *process {
	t.Helper()
	s.SessionID, s.Token, s.Seed = name, f.mint(name), rand.IntN(1<<20)
	if s.Utterances == nil {
		s.Utterances = utterances
	}
	if s.Addresses == nil {
		s.Addresses = f.addresses(0)
	}
	return run(t, name, "speak.js", s)
}

// mint makes a session token, as an operator's backend does.
func (f *fleet) mint(session string) string {
	f.t.Helper()
	body, err := json.Marshal(map[string]any{"session_id": session, "ttl_seconds": 600})
	if err != nil {
		f.t.Fatal(err)
	}
	var minted struct {
		Token string `json:"token"`
	}
	for _, i := range f.instances {
		request, err := http.NewRequestWithContext(f.t.Context(), http.MethodPost, "http://"+i.address+"/v1/sessions", bytes.NewReader(body))
		if err != nil {
			f.t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+operatorKey)
		request.Header.Set("Content-Type", "application/json")
		answer, err := f.http.Do(request)
		if err != nil {
			continue
		}
		err = errors.Join(json.NewDecoder(answer.Body).Decode(&minted), answer.Body.Close())
		if err != nil || minted.Token == "" {
			f.t.Fatalf("mint a session token: %s %v", answer.Status, err)
		}
		return minted.Token
	}
	f.t.Fatal("no instance mints a session token")
	return ""
}
