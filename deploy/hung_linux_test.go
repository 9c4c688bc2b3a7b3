package deploy_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/lingua-scheduler/lingua/test/child"
)

// fakeInstance answers what a balancer asks, and WebSockets with its name.
type fakeInstance struct {
	name string
	url  string

	mu       sync.Mutex
	notReady bool
	hung     chan struct{} // nil: it answers; it is closed when it answers again
}

func startFakeInstance(t *testing.T, name string) *fakeInstance {
	t.Helper()
	i := &fakeInstance{name: name}
	server := httptest.NewServer(i)
	i.url = server.URL
	t.Cleanup(func() {
		i.set(false, false)
		server.Close()
	})
	return i
}

// set changes the state. An instance that hangs accepts connections, because the kernel does, and answers nothing.
func (i *fakeInstance) set(notReady, hung bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.notReady = notReady
	if i.hung != nil {
		close(i.hung)
		i.hung = nil
	}
	if hung {
		i.hung = make(chan struct{})
	}
}

func (i *fakeInstance) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	hung, notReady := i.hung, i.notReady
	i.mu.Unlock()
	if hung != nil {
		select {
		case <-hung:
		case <-r.Context().Done():
			return
		}
	}
	switch {
	case r.URL.Path == "/ws/session":
		if ws, err := websocket.Accept(w, r, nil); err == nil {
			_ = ws.Write(r.Context(), websocket.MessageText, []byte(i.name))
			<-ws.CloseRead(context.Background()).Done()
		}
	case r.URL.Path == "/readyz" && notReady:
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

// balancedSocket is a WebSocket through the balancer. lost is closed when it has ended.
type balancedSocket struct {
	instance string
	lost     <-chan struct{}
}

func (s *balancedSocket) open() bool {
	select {
	case <-s.lost:
		return false
	default:
		return true
	}
}

// connectThrough opens a WebSocket through the balancer.
func connectThrough(t *testing.T, balancer string) (*balancedSocket, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	ws, _, err := websocket.Dial(ctx, "ws://"+balancer+"/ws/session", nil)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = ws.CloseNow() })
	_, name, err := ws.Read(ctx)
	if err != nil {
		return nil, err
	}
	return &balancedSocket{instance: string(name), lost: ws.CloseRead(context.WithoutCancel(t.Context())).Done()}, nil
}

// TestBalancerClosesConnectionsOfHungInstance runs HAProxy with its configuration: connections of an instance that hangs are closed, and
// those of one that is only not ready stay.
func TestBalancerClosesConnectionsOfHungInstance(t *testing.T) {
	t.Parallel()
	skipShort(t)
	program, err := exec.LookPath("haproxy")
	if err != nil {
		t.Fatal("haproxy is not on PATH: make tools installs it")
	}
	address := child.Address(child.Port(t))
	replace := []string{"bind :5010", "bind " + address, "bind :5011", "bind " + child.Address(child.Port(t)), "maxconn 30000", "maxconn 1000"}
	instances := map[string]*fakeInstance{}
	composition := compose(t)
	for _, name := range composition.servicesRunning("serve") {
		instances[name] = startFakeInstance(t, name)
		replace = append(replace, "server "+name+" "+name+":5010", "server "+name+" "+strings.TrimPrefix(instances[name].url, "http://"))
	}
	file := filepath.Join(t.TempDir(), "haproxy.cfg")
	if err := os.WriteFile(file, []byte(strings.NewReplacer(replace...).Replace(text(t, balancerFile))), 0o600); err != nil {
		t.Fatal(err)
	}
	p := startProcess(t, "balancer", os.Environ(), program, "-db", "-f", file)
	sockets := map[string]*balancedSocket{} // one of each instance
	waitUntil(t, "connecting to each instance", p, func() error {
		s, err := connectThrough(t, address)
		if err == nil && sockets[s.instance] == nil {
			sockets[s.instance] = s
		}
		if len(sockets) < len(instances) {
			return fmt.Errorf("%d of %d instances have a connection: %w", len(sockets), len(instances), err)
		}
		return nil
	})
	first, err := connectThrough(t, address)
	if err != nil {
		t.Fatal(err)
	}
	chosen := instances[first.instance]
	// chooses connects until the balancer has, or has not, chosen the instance as often as there are instances: those with the fewest
	// connections are next.
	chooses := func(want bool) {
		t.Helper()
		waitUntil(t, "new connections", p, func() error {
			for range 2 * len(instances) {
				s, err := connectThrough(t, address)
				if err != nil {
					return err
				}
				if s.instance == chosen.name {
					if want {
						return nil
					}
					return errors.New("the instance still gets new connections")
				}
			}
			if want {
				return errors.New("the instance gets no new connections")
			}
			return nil
		})
	}

	chosen.set(true, false)
	chooses(false)
	if !sockets[chosen.name].open() || !first.open() {
		t.Error("a connection of an instance that was not ready was closed")
	}
	chosen.set(false, false)
	chooses(true)

	hungAt := time.Now()
	chosen.set(false, true)
	waitUntil(t, "waiting for the end of the connections of the instance that hangs", p, func() error {
		if sockets[chosen.name].open() || first.open() {
			return errors.New("they are open")
		}
		return nil
	})
	t.Logf("the connections of an instance that hangs were closed after %v", time.Since(hungAt).Round(10*time.Millisecond))
	for name, s := range sockets {
		if name != chosen.name && !s.open() {
			t.Errorf("a connection of %s was closed", name)
		}
	}
	chooses(false)
	chosen.set(false, false)
	chooses(true)
}
