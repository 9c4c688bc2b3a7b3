package scheduler_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/client"
	"github.com/lingua-scheduler/lingua/internal/auth"
	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/lab"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/scheduler"
	"github.com/lingua-scheduler/lingua/test/fleet"
	"github.com/lingua-scheduler/lingua/test/redistest"
	"github.com/lingua-scheduler/lingua/wire"
)

// keysFile is the config file that the instances of a test share. Each credential has an old and a new secret, and the file has those
// that the rotation has reached.
type keysFile struct {
	t    *testing.T
	path string
}

// The secrets of the rotation.
func secretOf(name, age string) string { return "secret-of-" + name + "-" + age + "-0123456789abcdef" }

// write writes the file with the secrets of these ages. The first one signs.
func (f *keysFile) write(ages ...string) {
	f.t.Helper()
	hashes := func(name string) string {
		var list []string
		for _, age := range ages {
			sum := sha256.Sum256([]byte(secretOf(name, age)))
			list = append(list, `"`+hex.EncodeToString(sum[:])+`"`)
		}
		return "sha256 = [" + strings.Join(list, ", ") + "]\n"
	}
	var cluster []string
	signers := ""
	for i, age := range ages {
		cluster = append(cluster, `"`+secretOf("cluster", age)+`"`)
		file := filepath.Join(filepath.Dir(f.path), "signer-"+age)
		f.replace(file, secretOf("signer", age))
		signers += fmt.Sprintf("[[auth.signers]]\nkid = %q\nuse = %q\nsecret_file = %q\n", age, []string{"sign", "verify"}[min(i, 1)], file)
	}
	f.replace(f.path, "[scheduler.sessions]\nutterances_per_second = 100\n[auth]\ncluster_secret = ["+strings.Join(cluster, ", ")+"]\n[callback]\nallowed_targets = []\n"+
		"[[auth.keys]]\nname = \"admin\"\nrole = \"operator\"\n"+hashes("operator")+
		"[[auth.keys]]\nname = \"gpus\"\nrole = \"node\"\nnodes = \"gpu-*\"\n"+hashes("node")+
		"[[auth.keys]]\nname = \"backend\"\nrole = \"minter\"\ntenant = \"acme\"\n"+hashes("minter")+signers)
}

func (f *keysFile) replace(path, text string) {
	f.t.Helper()
	if err := errors.Join(os.WriteFile(path+".new", []byte(text), 0o600), os.Rename(path+".new", path)); err != nil {
		f.t.Fatal(err)
	}
}

// load loads the file for an instance on a store.
func (f *keysFile) load(store string) (config.Config, []string, error) {
	c, warnings, err := config.Load(f.path, nil).Validate()
	c.Store, c.Server.Port, c.Server.ShutdownSeconds = store, 0, 1
	return c, warnings, err
}

// rotation is instances that share a config file, and callers that use all of its keys again and again.
type rotation struct {
	t         *testing.T
	file      *keysFile
	instances []*scheduler.Scheduler
	urls      []string
	age       atomic.Value // of the secrets that callers use: old or new
	cycles    []*atomic.Int64
	speakers  []fleet.Session
	stop      context.CancelFunc
	callers   sync.WaitGroup
}

func startRotation(t *testing.T, instances int) *rotation {
	t.Helper()
	redis := redistest.Start(t)
	r := &rotation{t: t, file: &keysFile{t, filepath.Join(t.TempDir(), "lingua.toml")}}
	r.file.write("old")
	r.age.Store("old")
	for range instances {
		cfg, _, err := r.file.load(redis.URL())
		if err != nil {
			t.Fatal(err)
		}
		s, url := runTest(t, func() *scheduler.Scheduler { return newScheduler(t, cfg) })
		s.SetConfigSource(func() (config.Config, []string, error) { return r.file.load(redis.URL()) })
		r.instances = append(r.instances, s)
		r.urls = append(r.urls, url)
	}
	return r
}

func (r *rotation) anyURL() string { return r.urls[rand.N(len(r.urls))] }

// secret is the secret of a credential that callers use now.
func (r *rotation) secret(name string) string { return secretOf(name, r.age.Load().(string)) }

// run repeats an action until the callers are stopped. An error that is not the end of the test fails it. On a busy machine the store
// may not answer in time, or no slot become free, which is no matter of keys.
func (r *rotation) run(ctx context.Context, name string, action func(ctx context.Context, n int64) error) {
	done := new(atomic.Int64)
	r.cycles = append(r.cycles, done)
	r.callers.Go(func() {
		for n := int64(0); ctx.Err() == nil; n++ {
			err := action(ctx, n)
			var e *wire.Error
			busy := errors.As(err, &e) && (e.Code == wire.SchedulerDependencyDown || e.Code == wire.AllCandidatesFullOrFailed)
			if err != nil && ctx.Err() == nil && !busy {
				r.t.Errorf("%s: %v", name, err)
				return
			}
			done.Add(1)
			run.Sleep(ctx, 15*time.Millisecond) // or they would take the processor from the instances
		}
	})
}

// startCallers starts a caller with each kind of credential.
func (r *rotation) startCallers() {
	ctx, stop := context.WithCancel(context.WithoutCancel(r.t.Context()))
	r.stop = stop
	r.t.Cleanup(r.end)
	call := func(ctx context.Context, credential string, in any, path string, out any) error {
		api := lab.NewAPI(r.anyURL())
		defer api.Close()
		api.Token = credential
		if in == nil {
			return api.Get(ctx, path, out)
		}
		return api.Post(ctx, path, in, out)
	}
	r.run(ctx, "operator", func(ctx context.Context, _ int64) error {
		return call(ctx, r.secret("operator"), nil, "/v1/nodes?limit=1", new(wire.NodeList))
	})
	r.run(ctx, "node", func(ctx context.Context, n int64) error {
		slots := 1
		in := wire.RegisterRequest{NodeID: fmt.Sprintf("gpu-%d", n), Declaration: wire.Declaration{SemanticLangs: []string{"ko", "de"}, MaxConcurrentJobs: &slots}}
		return call(ctx, r.secret("node"), in, "/v1/node/register", new(wire.RegisterResponse))
	})
	r.run(ctx, "minter and session", func(ctx context.Context, _ int64) error {
		s, err := r.startSession(ctx)
		if err != nil {
			return err
		}
		return s.Close()
	})
}

// mint mints a token for a session at any instance.
func (r *rotation) mint(ctx context.Context, session string) (token wire.SessionTokenResponse, err error) {
	api := lab.NewAPI(r.anyURL())
	defer api.Close()
	api.Token = r.secret("minter")
	err = api.Post(ctx, "/v1/sessions", wire.SessionTokenRequest{SessionID: session}, &token)
	return token, err
}

// startSession mints a token at an instance and starts a session with it at any other.
func (r *rotation) startSession(ctx context.Context) (*client.Session, error) {
	token, err := r.mint(ctx, "")
	if err != nil {
		return nil, err
	}
	return client.Start(ctx, client.Config{
		URL: r.anyURL(), Token: token.Token, Log: discardLog, Start: wire.SessionStart{SessionID: token.SessionID, Langs: []string{"en", "es"}},
	})
}

// settle waits until every caller has begun and ended a call.
func (r *rotation) settle() {
	r.t.Helper()
	for _, done := range r.cycles {
		want := done.Load() + 2
		waitUntil(r.t, "the callers", waitLimit, func() bool { return done.Load() >= want || r.t.Failed() })
	}
}

// end stops the callers.
func (r *rotation) end() {
	r.stop()
	r.callers.Wait()
}

// reload writes the file and reloads one instance after another, with calls in between.
func (r *rotation) reload(ages ...string) {
	r.t.Helper()
	r.file.write(ages...)
	for _, s := range r.instances {
		if result, err := s.Reload(config.ReloadRequest{}); err != nil || len(result.Changed) == 0 || len(result.NeedsRestart) > 0 {
			r.t.Fatalf("%+v, %v", result, err)
		}
		r.checkPeers()
		r.settle()
	}
	r.waitForDigest()
}

// checkPeers checks that every instance gets answers from all others, which verify its requests with the cluster secret.
func (r *rotation) checkPeers() {
	r.t.Helper()
	for i, url := range r.urls {
		api := lab.NewAPI(url)
		api.Token = r.secret("operator")
		// On a busy machine an instance may not answer in time. One that refuses the secret would go on refusing.
		waitUntil(r.t, fmt.Sprintf("instance %d to get an answer from every other", i), waitLimit, func() bool {
			var list wire.JobList
			retryWhileDown(r.t, func() error { return api.Get(r.t.Context(), "/v1/jobs", &list) })
			return !list.Partial
		})
		api.Close()
	}
}

// waitForDigest waits until the list of instances shows the same keys everywhere: those of the last reload.
func (r *rotation) waitForDigest() {
	r.t.Helper()
	api := lab.NewAPI(r.urls[0])
	defer api.Close()
	api.Token = r.secret("operator")
	want := r.instances[0].Keyring().Digest()
	waitUntil(r.t, "the digest of all instances", waitLimit, func() bool {
		var list wire.InstanceList
		if api.Get(r.t.Context(), "/v1/instances", &list) != nil || len(list.Instances) != len(r.instances) {
			return false
		}
		return !slices.ContainsFunc(list.Instances, func(i wire.Instance) bool { return i.KeysDigest != want })
	})
}

// TestRotationOfEveryKey rotates an operator key, a node key, a minter, a signer and the cluster secret on three instances, one after the
// other, while nodes are connected and sessions speak: no call and no utterance fails, and no connection is lost.
func TestRotationOfEveryKey(t *testing.T) {
	t.Parallel()
	r := startRotation(t, 3)
	r.startCallers()
	r.startSpeakers()
	r.settle()

	r.reload("old", "new") // the new secrets are accepted everywhere
	r.age.Store("new")     // callers use them
	r.settle()
	r.reload("new", "old") // and now they sign
	r.renewTokens()
	r.settle()
	r.reload("new") // the old ones are refused
	r.settle()
	r.end()
	api := lab.NewAPI(r.anyURL())
	defer api.Close()
	for _, name := range []string{"operator", "node", "minter"} {
		api.Token = secretOf(name, "old")
		var e *wire.Error
		if err := api.Get(t.Context(), "/v1/nodes", new(wire.NodeList)); !errors.As(err, &e) || e.Code != wire.Unauthorized {
			t.Errorf("the old %s: %v", name, err)
		}
	}
	for age, accepted := range map[string]bool{"old": false, "new": true} {
		another := auth.NewPeerClient("another", auth.NewPeerSecrets([]string{secretOf("cluster", age)}), nil, func() bool { return true })
		err := another.Get(t.Context(), r.urls[0], "/v1/jobs?scope=here", &auth.Principal{Role: auth.Operator}, new(wire.JobList))
		if (err == nil) != accepted {
			t.Errorf("a request of an instance with the %s secret: %v", age, err)
		}
	}
}

// TestInvalidReloadChangesNothing: a wrong file is answered with all its errors, and the keys in force stay.
func TestInvalidReloadChangesNothing(t *testing.T) {
	t.Parallel()
	r := startRotation(t, 1)
	api := lab.NewAPI(r.urls[0])
	defer api.Close()
	api.Token = secretOf("operator", "old")
	before := r.instances[0].Keyring().Digest()
	for name, c := range map[string]struct{ text, want string }{
		"not TOML":        {"[auth\n", "line 1"},
		"two mistakes":    {"[server]\nport = -1\n[[auth.keys]]\nname = \"x\"\nrole = \"king\"\n", "role must be"},
		"no keys":         {"", "only by a restart"},
		"no operator key": {"[auth]\nnode_tokens = [\"gpu-*=0123456789abcdef\"]\n", "auth.operator_keys"},
	} {
		r.file.replace(r.file.path, c.text)
		err := api.Post(t.Context(), "/v1/config/reload", nil, new(wire.ReloadResponse))
		var e *wire.Error
		if !errors.As(err, &e) || e.Code != wire.ConfigInvalid || !strings.Contains(e.Detail, c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if name == "two mistakes" && (e == nil || !strings.Contains(e.Detail, "server.port")) {
			t.Errorf("%s: not all are named: %v", name, err)
		}
		if got := r.instances[0].Keyring().Digest(); got != before {
			t.Errorf("%s: the keys in force have changed", name)
		}
	}
	r.file.write("old")
	text, err := os.ReadFile(r.file.path)
	if err != nil {
		t.Fatal(err)
	}
	r.file.replace(r.file.path, string(text)+"[scheduler.dispatch]\nmax_retry = 1\n")
	var out wire.ReloadResponse
	if err := api.Post(t.Context(), "/v1/config/reload", nil, &out); err != nil || !slices.Equal(out.NeedsRestart, []string{"scheduler.dispatch.max_retry"}) || out.KeysDigest != before {
		t.Errorf("%+v, %v", out, err)
	}
}

// TestReloadClosesConnectionsOfRemovedKeys: a session whose key, or the signer of whose token, is removed is closed with 4401; others stay.
func TestReloadClosesConnectionsOfRemovedKeys(t *testing.T) {
	t.Parallel()
	r := startRotation(t, 1)
	committed := make(chan struct{}, 1)
	start := func() (*client.Session, chan error) {
		var s *client.Session
		retryWhileDown(t, func() (err error) {
			s, err = r.startSession(t.Context())
			return err
		})
		t.Cleanup(func() { _ = s.Close() })
		ended := make(chan error, 2)
		go func() {
			for e, err := range s.Events() {
				if err != nil {
					ended <- err
					return
				}
				if _, ok := e.(client.UtteranceCommitted); ok {
					committed <- struct{}{}
				}
			}
			ended <- nil
		}()
		return s, ended
	}
	_, oldEnded := start()
	renewed, renewedEnded := start()
	r.reload("new", "old")
	r.age.Store("new")
	newSession, newEnded := start()
	r.renew(renewed, committed)
	r.reload("new") // removes the signer of the first session
	var refused *client.ConnectionError
	timeout := time.AfterFunc(waitLimit, func() { oldEnded <- errors.New("it is still open") })
	defer timeout.Stop()
	if err := <-oldEnded; !errors.As(err, &refused) || refused.Frame == nil || refused.Frame.Code != wire.Unauthorized {
		t.Errorf("the session of a removed signer: %v", err)
	}
	for s, ended := range map[*client.Session]chan error{newSession: newEnded, renewed: renewedEnded} {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; err != nil && !errors.Is(err, client.ErrClosed) {
			t.Errorf("another session: %v", err)
		}
	}
}

// renew sends a session another token, and waits until the instance has it.
func (r *rotation) renew(s *client.Session, committed <-chan struct{}) {
	r.t.Helper()
	api := lab.NewAPI(r.anyURL())
	defer api.Close()
	api.Token = r.secret("minter")
	var token wire.SessionTokenResponse
	retryWhileDown(r.t, func() error {
		return api.Post(r.t.Context(), "/v1/sessions", wire.SessionTokenRequest{SessionID: s.ID(), TTLSeconds: 7200}, &token)
	})
	if err := s.Update(wire.SessionUpdate{Token: token.Token}); err != nil {
		r.t.Fatal(err)
	}
	if _, err := s.Write(tone(100)); err != nil {
		r.t.Fatal(err)
	}
	if err := s.Commit(); err != nil {
		r.t.Fatal(err)
	}
	<-committed // messages are handled in order
}
