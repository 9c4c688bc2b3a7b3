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

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/core"
)

// composition is compose.yaml, as far as we use it. What it does not know, the decoder refuses.
type composition struct {
	Name     string
	Services map[string]service
	Secrets  map[string]struct{ File string }
	Volumes  map[string]struct{}

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
	Ports       []string
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

// dependencies are what a service waits for, each with its condition.
type dependencies map[string]string

// UnmarshalYAML takes both forms.
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
func fill(t *testing.T, s string) string {
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
			t.Errorf("%q: a scheduler would take the variable %s for one of its own", s, m[1])
		}
		return m[2]
	})
}

// compose reads compose.yaml with the defaults of its variables.
func compose(t *testing.T) composition {
	t.Helper()
	var c composition
	decode(t, "compose.yaml", &c)
	for name, s := range c.Services {
		s.Image = fill(t, s.Image)
		for _, list := range [][]string{s.Command, s.Volumes, s.Ports, s.Healthcheck.Test} {
			for i := range list {
				list[i] = fill(t, list[i])
			}
		}
		s.Environment = maps.Clone(s.Environment)
		for key, value := range s.Environment {
			s.Environment[key] = fill(t, value)
		}
		c.Services[name] = s
	}
	return c
}

// runs lists the services that run a command of our image.
func (c *composition) runs(command string) []string {
	var names []string
	for name, s := range c.Services {
		if strings.HasPrefix(s.Image, "lingua:") && len(s.Command) > 0 && s.Command[0] == command {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// configuration is what a scheduler of the composition runs with: its file and its variables, as serve reads them.
func (c *composition) configuration(t *testing.T, name string, more ...string) config.Config {
	t.Helper()
	s := c.Services[name]
	at := slices.Index(s.Command, "--config")
	if at < 0 || at+1 >= len(s.Command) {
		t.Fatalf("%s reads no config file, so it has no keys", name)
	}
	file, ok := strings.CutPrefix(s.Command[at+1], "/run/secrets/")
	if !ok || !slices.Contains(s.Secrets, file) {
		t.Fatalf("%s reads %s, which is none of its secrets %v", name, s.Command[at+1], s.Secrets)
	}
	cfg, err := config.Load(filepath.Join(secrets(t), file), append(environment(s), more...)).Validate()
	if err != nil {
		t.Fatalf("%s would not start: %v", name, err)
	}
	return cfg
}

func environment(s service) []string {
	var all []string
	for key, value := range s.Environment {
		all = append(all, key+"="+value)
	}
	slices.Sort(all)
	return all
}

func TestComposeNamesOnlyWhatThereIs(t *testing.T) {
	t.Parallel()
	c := compose(t)
	made := secrets(t)
	for name, s := range c.Services {
		if s.Build.Context != "" {
			if _, err := os.Stat(filepath.Join(s.Build.Context, s.Build.Dockerfile)); err != nil {
				t.Errorf("%s is built from what is not there: %v", name, err)
			}
		}
		for _, other := range slices.Sorted(maps.Keys(s.DependsOn)) {
			on, there := c.Services[other]
			if !there {
				t.Errorf("%s depends on %s, which is not there", name, other)
			}
			if s.DependsOn[other] == "service_healthy" && len(on.Healthcheck.Test) == 0 {
				t.Errorf("%s waits until %s is healthy, which nobody checks", name, other)
			}
		}
		for _, secret := range s.Secrets {
			if c.Secrets[secret].File == "" {
				t.Errorf("%s wants the secret %s, which is not there", name, secret)
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
				t.Errorf("%s mounts %s: it has to be there, and read-only", name, volume)
			}
		}
		for _, port := range s.Ports {
			if !strings.HasPrefix(port, "127.0.0.1:") {
				t.Errorf("%s opens %s to others than this machine", name, port)
			}
		}
		if s.Restart != "unless-stopped" {
			t.Errorf("%s is not started again when it ends", name)
		}
	}
	for name, secret := range c.Secrets {
		if _, err := os.Stat(filepath.Join(made, filepath.Base(secret.File))); err != nil || filepath.Dir(secret.File) != "secrets" {
			t.Errorf("the secret %s is in %s, which keys.sh does not make", name, secret.File)
		}
	}
}

func TestComposeHasNoSecretsInIt(t *testing.T) {
	t.Parallel()
	for name, s := range compose(t).Services {
		for key := range s.Environment {
			if secretName.MatchString(key) {
				t.Errorf("%s has %s in the file: it belongs into secrets/", name, key)
			}
		}
	}
	if got, want := text(t, ".gitignore"), "/secrets/\n"; !strings.Contains(got, want) {
		t.Errorf("deploy/.gitignore does not keep %s out of the repository", strings.TrimSpace(want))
	}
}

func TestInstancesAreOneScheduler(t *testing.T) {
	t.Parallel()
	c := compose(t)
	names := c.runs("serve")
	if len(names) != 3 {
		t.Fatalf("the schedulers are %v, want three", names)
	}
	var first config.Config
	addresses := make(map[string]bool)
	for i, name := range names {
		cfg := c.configuration(t, name)
		if want := fmt.Sprintf("http://%s:%d", name, cfg.Server.Port); cfg.Server.AdvertiseURL != want {
			t.Errorf("%s says that it can be reached at %s, want %s", name, cfg.Server.AdvertiseURL, want)
		}
		addresses[cfg.Server.AdvertiseURL] = true
		// All the rest is the same: keys, key_prefix, Redis, times.
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
	if len(first.Auth.OperatorKeys) == 0 || len(first.Auth.NodeTokens) == 0 || first.Auth.SessionSecret == "" || first.Server.Insecure {
		t.Error("the schedulers have no keys")
	}
	redis, shared, err := first.RedisAddress()
	if err != nil || !shared || redis.Password == "" {
		t.Errorf("the schedulers do not share a Redis that is locked: shared %v, %v", shared, err)
	}
	if !strings.Contains(first.Scheduler.Phase2.Redis.URL, "//redis:6379") {
		t.Errorf("Redis is sought at %s", first.Scheduler.Phase2.Redis.URL)
	}
}

// A shutdown takes its time: a container that is killed earlier loses jobs that could have ended.
func TestNobodyIsKilledWhileStopping(t *testing.T) {
	t.Parallel()
	c := compose(t)
	for _, name := range c.runs("serve") {
		grace, err := time.ParseDuration(c.Services[name].StopGracePeriod)
		cfg := c.configuration(t, name)
		if err != nil || grace < cfg.Server.ShutdownSeconds.Duration()+10*time.Second {
			t.Errorf("%s is killed after %v (%v), and may take %v and a little to stop", name, grace, err, cfg.Server.ShutdownSeconds.Duration())
		}
	}
	for _, name := range c.runs("node") {
		if grace, err := time.ParseDuration(c.Services[name].StopGracePeriod); err != nil || grace <= 30*time.Second {
			t.Errorf("%s is killed after %v (%v), and may take 30 s to finish what it has", name, grace, err)
		}
	}
}

func TestOurContainersAreConfined(t *testing.T) {
	t.Parallel()
	c := compose(t)
	for _, name := range append(c.runs("serve"), c.runs("node")...) {
		s := c.Services[name]
		if !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) || !slices.Contains(s.SecurityOpt, "no-new-privileges:true") {
			t.Errorf("%s could do more than it has to", name)
		}
	}
}

func TestNodesEnterThroughTheBalancer(t *testing.T) {
	t.Parallel()
	c := compose(t)
	names := c.runs("node")
	if len(names) < 2 {
		t.Fatalf("the nodes are %v, want two or more", names)
	}
	cfg := c.configuration(t, c.runs("serve")[0])
	doors, err := cfg.Auth.Keys()
	if err != nil {
		t.Fatal(err)
	}
	_, token, _ := strings.Cut(strings.TrimSpace(text(t, filepath.Join(secrets(t), "node.env"))), "=")
	grant, err := doors.Node(token)
	if err != nil {
		t.Fatalf("the token of node.env is not one of the schedulers': %v", err)
	}
	ids := make(map[string]bool)
	for _, name := range names {
		words := c.Services[name].Command
		id := flag(words, "--id")
		if ids[id] || !grant.Covers(core.NodeID(id)) {
			t.Errorf("%s is node %q: its name is taken, or its token is not for it", name, id)
		}
		ids[id] = true
		if got := flag(words, "--server"); got != "http://balancer:5010" {
			t.Errorf("%s connects to %s, not to the balancer", name, got)
		}
	}
}

// flag is the value of a flag on a command line.
func flag(words []string, name string) string {
	if i := slices.Index(words, name); i >= 0 && i+1 < len(words) {
		return words[i+1]
	}
	return ""
}

func TestComposeByDocker(t *testing.T) {
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
