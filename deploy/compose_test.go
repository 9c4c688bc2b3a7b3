package deploy_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	yaml "github.com/oasdiff/yaml3"

	"github.com/lingua-scheduler/lingua/internal/auth"
	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/core"
)

// composeFile is the part of the compose format that compose.yaml uses. Other keys are refused.
type composeFile struct {
	Name     string
	Services map[string]service
	Secrets  map[string]struct{ File string }
	Volumes  map[string]struct{}
	Networks map[string]struct{ Internal bool }

	Sandbox  any `yaml:"x-sandbox"`
	Image    any `yaml:"x-image"`
	Instance any `yaml:"x-instance"`
	Settings any `yaml:"x-settings"`
	Node     any `yaml:"x-node"`
}

type service struct {
	Image string
	Build struct{ Context, Dockerfile string }

	Command     []string
	Environment map[string]string
	EnvFile     []string `yaml:"env_file"`
	Secrets     []string
	Volumes     []string
	Tmpfs       []string
	Ports       []string
	Networks    []string
	User        string
	DependsOn   dependencies `yaml:"depends_on"`
	Healthcheck struct {
		Test              []string
		Interval, Timeout string
		Retries           int
		Disable           bool
	}
	Restart         string
	StopGracePeriod string   `yaml:"stop_grace_period"`
	ReadOnly        bool     `yaml:"read_only"`
	CapDrop         []string `yaml:"cap_drop"`
	SecurityOpt     []string `yaml:"security_opt"`
	MemLimit        string   `yaml:"mem_limit"`
	Ulimits         map[string]int
}

// dependencies are the services that a service waits for, with their conditions.
type dependencies map[string]string

// UnmarshalYAML decodes both forms, a list and a map.
func (d *dependencies) UnmarshalYAML(n *yaml.Node) error {
	*d = make(dependencies)
	var names []string
	if n.Decode(&names) == nil {
		for _, name := range names {
			(*d)[name] = "service_started"
		}
		return nil
	}
	var long map[string]struct{ Condition string }
	err := n.Decode(&long)
	for name, how := range long {
		(*d)[name] = how.Condition
	}
	return err
}

var placeholder = regexp.MustCompile(`\$\$|\$\{([A-Z_]+):-([^}]*)\}|\$`)

// fill replaces variables, which the environment may set, by their defaults; each must have one.
func expandDefaults(t *testing.T, s string) string {
	t.Helper()
	return placeholder.ReplaceAllStringFunc(s, func(found string) string {
		if found == "$$" {
			return "$"
		}
		m := placeholder.FindStringSubmatch(found)
		if m[1] == "" {
			t.Errorf("%q has a variable without a default", s)
		}
		if strings.HasPrefix(m[1], config.EnvPrefix) {
			t.Errorf("%q: the scheduler would read the variable %s as one of its own", s, m[1])
		}
		return m[2]
	})
}

// compose decodes compose.yaml with the defaults of its variables.
func compose(t *testing.T) composeFile {
	t.Helper()
	var c composeFile
	decode(t, "compose.yaml", &c)
	for name, s := range c.Services {
		s.Image = expandDefaults(t, s.Image)
		for _, list := range [][]string{s.Command, s.Volumes, s.Ports, s.Healthcheck.Test} {
			for i := range list {
				list[i] = expandDefaults(t, list[i])
			}
		}
		s.Environment = maps.Clone(s.Environment)
		for key, value := range s.Environment {
			s.Environment[key] = expandDefaults(t, value)
		}
		c.Services[name] = s
	}
	return c
}

// servicesRunning returns the services that run a command of our image.
func (c *composeFile) servicesRunning(command string) []string {
	var names []string
	for name, s := range c.Services {
		if strings.HasPrefix(s.Image, "lingua:") && len(s.Command) > 0 && s.Command[0] == command {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// config returns the configuration of a scheduler: its file and its variables, loaded as serve does.
func (c *composeFile) config(t *testing.T, name string, more ...string) config.Config {
	t.Helper()
	s := c.Services[name]
	at := slices.Index(s.Command, "--config")
	if at < 0 || at+1 >= len(s.Command) {
		t.Fatalf("%s has no config file, and so no keys", name)
	}
	file, ok := strings.CutPrefix(s.Command[at+1], "/run/secrets/")
	if !ok || !slices.Contains(s.Secrets, file) {
		t.Fatalf("%s reads %s, which is not one of its secrets %v", name, s.Command[at+1], s.Secrets)
	}
	cfg, warnings, err := config.Load(filepath.Join(secrets(t), file), append(runEnvironment(t, s), more...)).Validate()
	if err != nil || len(warnings) > 0 {
		t.Fatalf("%s would not start, or with warnings: %v %q", name, err, warnings)
	}
	return cfg
}

// runEnvironment returns the variables of a service as its container has them, with those of its files and with paths of this machine.
func runEnvironment(t *testing.T, s service) []string {
	t.Helper()
	var all []string
	for _, file := range s.EnvFile {
		all = append(all, strings.Fields(text(t, filepath.Join(secrets(t), filepath.Base(file))))...)
	}
	for _, v := range environment(s) {
		all = append(all, strings.Replace(v, "=/run/secrets/", "="+secrets(t)+"/", 1))
	}
	return all
}

func environment(s service) []string {
	var all []string
	for key, value := range s.Environment {
		all = append(all, key+"="+value)
	}
	slices.Sort(all)
	return all
}

func TestComposeReferencesExist(t *testing.T) {
	t.Parallel()
	c := compose(t)
	made := secrets(t)
	for name, s := range c.Services {
		if s.Build.Context != "" {
			if _, err := os.Stat(filepath.Join(s.Build.Context, s.Build.Dockerfile)); err != nil {
				t.Errorf("the build context of %s does not exist: %v", name, err)
			}
		}
		for _, other := range slices.Sorted(maps.Keys(s.DependsOn)) {
			on, there := c.Services[other]
			if !there {
				t.Errorf("%s depends on %s, which does not exist", name, other)
			}
			if s.DependsOn[other] == "service_healthy" && len(on.Healthcheck.Test) == 0 {
				t.Errorf("%s waits until %s is healthy, which has no health check", name, other)
			}
		}
		for _, secret := range s.Secrets {
			if c.Secrets[secret].File == "" {
				t.Errorf("%s uses the secret %s, which does not exist", name, secret)
			}
		}
		for _, file := range s.EnvFile {
			if _, err := os.Stat(filepath.Join(made, filepath.Base(file))); err != nil || filepath.Dir(file) != "secrets" {
				t.Errorf("%s reads variables from %s, which keys.sh does not make", name, file)
			}
		}
		for _, volume := range s.Volumes {
			from, _, _ := strings.Cut(volume, ":")
			if _, named := c.Volumes[from]; named {
				continue
			}
			if _, err := os.Stat(from); err != nil || !strings.HasSuffix(volume, ":ro") {
				t.Errorf("%s mounts %s, which must exist and be read-only", name, volume)
			}
		}
		for _, port := range s.Ports {
			if !strings.HasPrefix(port, "127.0.0.1:") {
				t.Errorf("%s publishes %s on other interfaces than loopback", name, port)
			}
		}
		if s.Restart != "unless-stopped" {
			t.Errorf("%s has no restart policy", name)
		}
	}
	for name, secret := range c.Secrets {
		if _, err := os.Stat(filepath.Join(made, filepath.Base(secret.File))); err != nil || filepath.Dir(secret.File) != "secrets" {
			t.Errorf("the secret %s is in %s, which keys.sh does not make", name, secret.File)
		}
	}
}

func TestComposeContainsNoSecrets(t *testing.T) {
	t.Parallel()
	for name, s := range compose(t).Services {
		for key := range s.Environment {
			if secretName.MatchString(key) {
				t.Errorf("%s has a value for %s, which belongs into secrets/", name, key)
			}
		}
	}
	if got, want := text(t, ".gitignore"), "/secrets/\n"; !strings.Contains(got, want) {
		t.Errorf("deploy/.gitignore does not keep %s out of the repository", strings.TrimSpace(want))
	}
}

func TestInstancesShareTheirConfiguration(t *testing.T) {
	t.Parallel()
	c := compose(t)
	names := c.servicesRunning("serve")
	if len(names) != 3 {
		t.Fatalf("the schedulers are %v, want three", names)
	}
	var first config.Config
	addresses := make(map[string]bool)
	for i, name := range names {
		cfg := c.config(t, name)
		if want := fmt.Sprintf("http://%s:%d", name, cfg.Server.Port); cfg.Server.AdvertiseURL != want {
			t.Errorf("%s advertises %s, want %s", name, cfg.Server.AdvertiseURL, want)
		}
		addresses[cfg.Server.AdvertiseURL] = true
		// Everything else is the same: keys, key_prefix, Redis, times.
		cfg.Server.AdvertiseURL = ""
		if i == 0 {
			first = cfg
		} else if diff := cmp.Diff(first, cfg); diff != "" {
			t.Errorf("%s differs from %s:\n%s", name, names[0], diff)
		}
	}
	if len(addresses) != len(names) {
		t.Errorf("%d schedulers share %d addresses", len(names), len(addresses))
	}
	if len(first.Auth.Keys) != 3 || first.Auth.SessionSecret == "" || len(first.Auth.ClusterSecrets) != 1 || first.Callback.Secret == "" || first.Server.Insecure {
		t.Error("the schedulers have no keys")
	}
	redis, shared, err := first.RedisAddress()
	if err != nil || !shared || redis.Password == "" || redis.Username != "lingua" || !redis.TLS || redis.Authorities == nil {
		t.Errorf("the schedulers do not share a Redis with TLS and a user of their own: shared %v, %v", shared, err)
	}
	if !strings.Contains(first.Scheduler.Phase2.Redis.URL, "//redis:6379") {
		t.Errorf("the address of Redis is %s", first.Scheduler.Phase2.Redis.URL)
	}
}

// TestStopGracePeriodCoversTheShutdown checks that no container is killed before its shutdown has ended: jobs would be lost.
func TestStopGracePeriodCoversTheShutdown(t *testing.T) {
	t.Parallel()
	c := compose(t)
	for _, name := range c.servicesRunning("serve") {
		grace, err := time.ParseDuration(c.Services[name].StopGracePeriod)
		cfg := c.config(t, name)
		if err != nil || grace < cfg.Server.ShutdownSeconds.Duration()+10*time.Second {
			t.Errorf("%s is killed after %v (%v), but a shutdown may take %v and more", name, grace, err, cfg.Server.ShutdownSeconds.Duration())
		}
	}
	for _, name := range c.servicesRunning("node") {
		if grace, err := time.ParseDuration(c.Services[name].StopGracePeriod); err != nil || grace <= 30*time.Second {
			t.Errorf("%s is killed after %v (%v), but its jobs may take 30 s", name, grace, err)
		}
	}
}

// TestContainersAreSandboxed checks that no container has a privilege, or writes anywhere but into a volume, as a user that is not root.
func TestContainersAreSandboxed(t *testing.T) {
	t.Parallel()
	c := compose(t)
	for name, s := range c.Services {
		if !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) || !slices.Contains(s.SecurityOpt, "no-new-privileges:true") {
			t.Errorf("%s has more privileges than it needs", name)
		}
	}
	// The other images do not run as root; without capabilities that of Redis could not give up being it.
	if user := c.Services["redis"].User; user == "" || strings.HasPrefix(user, "0") {
		t.Errorf("Redis runs as %q", user)
	}
}

// TestOnlyTheBalancerIsBetweenTheNetworks checks that clients reach the balancer and nothing behind it.
func TestOnlyTheBalancerIsBetweenTheNetworks(t *testing.T) {
	t.Parallel()
	c := compose(t)
	if !c.Networks["private"].Internal || c.Networks["public"].Internal || len(c.Networks) != 2 {
		t.Errorf("the networks are %v", c.Networks)
	}
	for name, s := range c.Services {
		want := []string{"private"}
		if name == "balancer" || name == "prometheus" {
			want = []string{"public", "private"}
		} else if name == "grafana" { // it reaches Prometheus and nothing behind it
			want = []string{"public"}
		} else if len(s.Ports) > 0 {
			t.Errorf("%s publishes %v", name, s.Ports)
		}
		if !slices.Equal(s.Networks, want) {
			t.Errorf("%s is in %v, want %v", name, s.Networks, want)
		}
	}
}

// TestSecretFilesHaveNarrowModes checks that only files which a container mounts can be read by other users, and that these cannot enter
// the directory.
func TestSecretFilesHaveNarrowModes(t *testing.T) {
	t.Parallel()
	c := compose(t)
	dir := secrets(t)
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the directory has mode %v, %v", info.Mode(), err)
	}
	mounted := make(map[string]bool)
	for _, secret := range c.Secrets {
		mounted[filepath.Base(secret.File)] = true
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		info, err := file.Info()
		want := os.FileMode(0o600)
		if mounted[file.Name()] {
			want = 0o644
		}
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, want %v (%v)", file.Name(), info.Mode().Perm(), want, err)
		}
	}
}

func TestNodesConnectThroughTheBalancer(t *testing.T) {
	t.Parallel()
	c := compose(t)
	names := c.servicesRunning("node")
	if len(names) < 2 {
		t.Fatalf("the nodes are %v, want two or more", names)
	}
	cfg := c.config(t, c.servicesRunning("serve")[0])
	keyring, err := cfg.Auth.Keyring()
	if err != nil {
		t.Fatal(err)
	}
	_, token, _ := strings.Cut(strings.TrimSpace(text(t, filepath.Join(secrets(t), "node.env"))), "=")
	caller, reason := auth.NewAuthenticator(keyring, nil).Authenticate(token)
	if reason != "" {
		t.Fatalf("the token of node.env is not one of the schedulers': %s", reason)
	}
	ids := make(map[string]bool)
	for _, name := range names {
		words := c.Services[name].Command
		id := flag(words, "--id")
		if ids[id] || !caller.ActsForNode(core.NodeID(id)) {
			t.Errorf("%s is node %q: the id is not unique, or not allowed for its token", name, id)
		}
		ids[id] = true
		if got := flag(words, "--server"); got != "http://balancer:5010" {
			t.Errorf("%s connects to %s, not to the balancer", name, got)
		}
	}
}

// flag returns the value of a flag on a command line.
func flag(words []string, name string) string {
	if i := slices.Index(words, name); i >= 0 && i+1 < len(words) {
		return words[i+1]
	}
	return ""
}

func TestDockerComposeConfig(t *testing.T) {
	t.Parallel()
	if !composeInstalled(t) {
		t.Log("docker compose is not installed: only our own checks were made")
		return
	}
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "deploy"), os.DirFS(".")); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(dir, "deploy", "secrets"), os.DirFS(secrets(t))); err != nil && !os.IsExist(err) {
		t.Fatal(err)
	}
	tool(t, "docker", "compose", "--file", filepath.Join(dir, "deploy", "compose.yaml"), "config", "--quiet")
}
