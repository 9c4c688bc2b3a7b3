package deploy_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/lab"
	"github.com/lingua-scheduler/lingua/test/child"
	"github.com/lingua-scheduler/lingua/test/redistest"
	"github.com/lingua-scheduler/lingua/wire"
)

// composeStack runs the services of compose.yaml on loopback: the same programs with the same arguments, variables, keys
// and configuration files; only the addresses differ.
type composeStack struct {
	t           *testing.T
	compose     composeFile
	keys        string
	instances   map[string]*process
	urls        map[string]string // of the instances
	balancerURL string            // for clients; empty if haproxy is not installed
	operatorURL string            // the same for operators
	nodes       map[string]*process
	redis       *redistest.Server
}

func newComposeStack(t *testing.T) *composeStack {
	t.Helper()
	return &composeStack{
		t: t, compose: compose(t), keys: secrets(t),
		instances: make(map[string]*process), urls: make(map[string]string), nodes: make(map[string]*process),
	}
}

// TestComposeStackRuns starts all services, runs a job, and stops an instance.
func TestComposeStackRuns(t *testing.T) {
	t.Parallel()
	s := newComposeStack(t)
	binary := built(t)
	s.startInstances(binary, s.startRedis(), "LINGUA_SERVER_DRAIN_DELAY_MS=8000") // the balancer may be late on a busy machine
	s.startBalancer()
	s.startNodes(binary)
	names := s.compose.servicesRunning("serve")
	for _, name := range names {
		s.waitForAllNodes(name)
	}
	s.runJob("first", s.entryURL(0))
	s.checkMetrics()
	s.checkPublicRoutes()
	s.checkRedisUser()
	s.checkOutage()

	first := s.instances[names[0]]
	grace, err := time.ParseDuration(s.compose.Services[names[0]].StopGracePeriod)
	if err != nil {
		t.Fatal(err)
	}
	end := s.keepDispatching()
	first.stop(t, grace)
	end()
	for _, name := range names[1:] {
		s.waitForAllNodes(name)
	}
	s.runJob("second", s.entryURL(1))
	for _, name := range s.compose.servicesRunning("node") {
		if s.balancerURL != "" { // without it, a node has lost the only address that it has
			s.nodes[name].stop(t, grace)
		}
	}
}

// startRedis runs Redis with redis.conf, the certificate and the users of keys.sh, and returns its address for TLS.
func (s *composeStack) startRedis() string {
	s.t.Helper()
	settings := []redistest.Option{}
	add := func(key, value string) { settings = append(settings, redistest.WithConfig(key, value)) }
	address := child.Address(child.Port(s.t))
	for _, line := range strings.Split(text(s.t, "redis/redis.conf"), "\n") {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case key == "" || key[0] == '#', key == "dir", key == "port": // redistest has a port of its own, without TLS
		case key == "tls-port":
			add(key, address[strings.LastIndex(address, ":")+1:])
		case key == "include":
			if want := "/run/secrets/redis.conf"; value != want || !slices.Contains(s.compose.Services["redis"].Secrets, "redis.conf") {
				s.t.Errorf("redis.conf includes %s, not the secret %s", value, want)
			}
		default:
			add(key, strings.Replace(value, "/run/secrets/", s.keys+"/", 1))
		}
	}
	password := ""
	for line := range strings.Lines(text(s.t, filepath.Join(s.keys, "redis.conf"))) {
		if key, value, _ := strings.Cut(strings.TrimSpace(line), " "); key == "user" {
			add(key, value)
		} else if key == "requirepass" {
			password = value
		}
	}
	if password == "" {
		s.t.Fatal("the secret redis.conf does not set a password")
	}
	s.redis = redistest.Start(s.t, settings...)
	if info, err := s.redis.Do("INFO", "persistence"); err != nil || !strings.Contains(fmt.Sprint(info), "aof_enabled:1") {
		s.t.Errorf("Redis has no append-only file (%v)", err)
	}
	return address
}

// checkOutage stops Redis: clients are refused, and operators still reach an instance, which says what is wrong.
func (s *composeStack) checkOutage() {
	s.t.Helper()
	if s.balancerURL == "" {
		return
	}
	p := s.instances[s.compose.servicesRunning("serve")[0]]
	s.redis.Stop()
	waitUntil(s.t, "waiting until clients are refused", p, func() error {
		if s.forwards(s.balancerURL, "/v1/version") {
			return errors.New("an instance answers")
		}
		return nil
	})
	var status wire.StoreStatus
	if err := s.request("GET", s.operatorURL+"/v1/store", "operator.key", "", &status); err != nil || status.Reachable || status.Problem == "" {
		s.t.Errorf("operators ask for the store without Redis: %+v, %v", status, err)
	}
	s.redis.Continue()
	waitUntil(s.t, "waiting until clients are served again", p, func() error { return s.request("GET", s.balancerURL+"/readyz", "", "", nil) })
}

// checkRedisUser checks that the user of the schedulers was refused nothing, and can do nothing else.
func (s *composeStack) checkRedisUser() {
	s.t.Helper()
	refused, err := s.redis.Do("ACL", "LOG")
	if list, _ := refused.([]any); err != nil || len(list) > 0 {
		s.t.Errorf("Redis refused what the schedulers tried: %v %v", list, err)
	}
	for _, command := range [][]string{{"FLUSHALL"}, {"CONFIG", "GET", "*"}, {"KEYS", "*"}, {"ACL", "LIST"}, {"SET", "other:key", "x"}, {"GET", "other:key"}, {"SUBSCRIBE", "lingua"}} {
		answer, err := s.redis.Do(append([]string{"ACL", "DRYRUN", "lingua"}, command...)...)
		if err != nil || fmt.Sprint(answer) == "OK" {
			s.t.Errorf("%v is %v, %v", command, answer, err)
		}
	}
}

// startInstances runs the schedulers, each on a free port, with more variables if there are any.
func (s *composeStack) startInstances(binary, redis string, more ...string) {
	s.t.Helper()
	for _, name := range s.compose.servicesRunning("serve") {
		s.startInstance(binary, redis, name, append([]string{"LINGUA_SERVER_PORT=0"}, more...)...)
	}
	for name := range s.instances {
		s.waitForAddress(name)
	}
}

// startInstance runs one scheduler with more variables than it has in the composition.
func (s *composeStack) startInstance(binary, redis, name string, more ...string) {
	s.t.Helper()
	service := s.compose.Services[name]
	var environ []string
	for _, v := range runEnvironment(s.t, service) {
		if !strings.HasPrefix(v, "LINGUA_SERVER_ADVERTISE_URL=") {
			environ = append(environ, strings.Replace(v, "//redis:6379", "//"+redis, 1))
		}
	}
	environ = append(append(environ, "LINGUA_SERVER_HOST=127.0.0.1"), more...)
	args := slices.Clone(service.Command)
	for i := range args {
		args[i] = strings.Replace(args[i], "/run/secrets", s.keys, 1)
	}
	s.instances[name] = startProcess(s.t, name, environ, binary, args...)
}

// waitForAddress waits until a scheduler has logged the address at which it listens.
func (s *composeStack) waitForAddress(name string) {
	s.t.Helper()
	p := s.instances[name]
	waitUntil(s.t, "waiting for "+name+" to listen", p, func() error {
		for line := range strings.Lines(p.outputText()) {
			var event struct{ Msg, Address string }
			if json.Unmarshal([]byte(line), &event) == nil && event.Msg == "listening" {
				s.urls[name] = "http://" + event.Address
				return nil
			}
		}
		return errors.New("it has not logged its address")
	})
}

// startBalancer runs haproxy if it is installed.
func (s *composeStack) startBalancer() {
	s.t.Helper()
	program, err := exec.LookPath("haproxy")
	if err != nil {
		s.t.Log("haproxy is not installed: the nodes connect to the instances themselves")
		return
	}
	address, operators := child.Address(child.Port(s.t)), child.Address(child.Port(s.t))
	body := strings.Replace(text(s.t, balancerFile), "bind :5010", "bind "+address, 1)
	body = strings.Replace(body, "bind :5011", "bind "+operators, 1)
	body = strings.Replace(body, "maxconn 30000", "maxconn 1000", 1) // the limit of open files may be lower here
	for name, url := range s.urls {
		body = strings.ReplaceAll(body, "server "+name+" "+name+":5010", "server "+name+" "+strings.TrimPrefix(url, "http://"))
	}
	file := filepath.Join(s.t.TempDir(), "haproxy.cfg")
	if err := os.WriteFile(file, []byte(body), 0o600); err != nil {
		s.t.Fatal(err)
	}
	p := startProcess(s.t, "balancer", os.Environ(), program, "-db", "-f", file)
	s.balancerURL, s.operatorURL = "http://"+address, "http://"+operators
	waitUntil(s.t, "waiting for the balancer", p, func() error { return s.request("GET", s.balancerURL+"/readyz", "", "", nil) })
}

// entryURL returns the URL of the balancer, or of an instance without one.
func (s *composeStack) entryURL(i int) string {
	if s.balancerURL != "" {
		return s.balancerURL
	}
	return s.urls[s.compose.servicesRunning("serve")[i]]
}

func (s *composeStack) startNodes(binary string) {
	s.t.Helper()
	token := strings.TrimSpace(text(s.t, filepath.Join(s.keys, "node.env")))
	for i, name := range s.compose.servicesRunning("node") {
		args := slices.Clone(s.compose.Services[name].Command)
		args[slices.Index(args, "--server")+1] = s.entryURL(i)
		s.nodes[name] = startProcess(s.t, name, []string{token}, binary, args...)
	}
}

// waitForAllNodes waits until an instance lists every node as online.
func (s *composeStack) waitForAllNodes(name string) {
	s.t.Helper()
	waitUntil(s.t, "waiting until "+name+" lists all nodes", s.instances[name], func() error {
		var list wire.NodeList
		if err := s.request("GET", s.urls[name]+"/v1/nodes", "operator.key", "", &list); err != nil {
			return err
		}
		online := 0
		for _, n := range list.Nodes {
			if n.Online {
				online++
			}
		}
		if online != len(s.nodes) {
			return fmt.Errorf("%d nodes are online", online)
		}
		return nil
	})
}

// runJob dispatches a job and waits for its end.
func (s *composeStack) runJob(request, door string) {
	s.t.Helper()
	body := fmt.Sprintf(`{"request_id": %q, "session_id": "room", "src_lang": "en", "tgt_lang": "zh", "audio_ref": "blob://hello"}`, request)
	last := s.instances[s.compose.servicesRunning("serve")[2]]
	var job wire.DispatchResponse
	waitUntil(s.t, "dispatching", last, func() error { return s.request("POST", door+"/v1/dispatch/f2f", "operator.key", body, &job) })
	waitUntil(s.t, "waiting for "+job.JobID, last, func() error {
		var now wire.Job
		if err := s.request("GET", door+"/v1/jobs/"+job.JobID, "operator.key", "", &now); err != nil {
			return err
		}
		if now.State != "DONE" {
			return fmt.Errorf("it is %s %s", now.State, now.Reason)
		}
		return nil
	})
}

// keepDispatching dispatches jobs through the balancer until the function that it returns is called. None may be refused.
func (s *composeStack) keepDispatching() (end func()) {
	if s.balancerURL == "" {
		return func() {}
	}
	ended, accepted := make(chan struct{}), 0
	var running sync.WaitGroup
	running.Go(func() {
		for ; ; accepted++ {
			body := fmt.Sprintf(`{"request_id": "kept-%d", "session_id": "room", "src_lang": "en", "tgt_lang": "zh", "options": {"max_wait_ms": 10000}}`, accepted)
			if err := s.request("POST", s.balancerURL+"/v1/dispatch/f2f", "operator.key", body, nil); err != nil {
				s.t.Errorf("dispatch %d while an instance stops: %v", accepted, err)
				return
			}
			select {
			case <-ended:
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
	})
	return func() {
		close(ended)
		running.Wait()
		s.t.Logf("%d dispatches were accepted while an instance stopped", accepted+1)
	}
}

// checkMetrics checks that every instance has metrics for Prometheus, and for no client without its key.
func (s *composeStack) checkMetrics() {
	s.t.Helper()
	for name, url := range s.urls {
		if err := s.request("GET", url+"/metrics", "metrics.key", "", nil); err != nil {
			s.t.Errorf("%s: %v", name, err)
		}
		if err := s.request("GET", url+"/metrics", "", "", nil); err == nil {
			s.t.Errorf("%s has its metrics without a credential", name)
		}
	}
	if s.balancerURL == "" {
		return
	}
	if err := s.request("GET", s.balancerURL+"/metrics", "metrics.key", "", nil); err == nil {
		s.t.Error("the balancer forwards /metrics to an instance")
	}
}

// request sends a request with one of the keys.
func (s *composeStack) request(method, url, key, body string, into any) error {
	api := lab.API{URL: url, HTTP: http.DefaultClient}
	if key != "" {
		api.Token = text(s.t, filepath.Join(s.keys, key))
	}
	if body == "" {
		return api.Do(s.t.Context(), method, "", nil, into)
	}
	return api.Do(s.t.Context(), method, "", json.RawMessage(body), into)
}
