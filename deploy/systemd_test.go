package deploy_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/config"
)

const (
	unitFile = "systemd/lingua.service"
	envFile  = "systemd/lingua.env.example"
)

// unit reads a unit: by section and name, every value it was given.
func unit(t *testing.T) map[string][]string {
	t.Helper()
	all := make(map[string][]string)
	section := ""
	for i, line := range strings.Split(text(t, unitFile), "\n") {
		switch line = strings.TrimSpace(line); {
		case line == "" || line[0] == '#':
		case line[0] == '[':
			section = strings.Trim(line, "[]")
		default:
			name, value, ok := strings.Cut(line, "=")
			if !ok || section == "" {
				t.Fatalf("%s:%d: %q is no setting", unitFile, i+1, line)
			}
			all[section+"."+name] = append(all[section+"."+name], value)
		}
	}
	return all
}

// variables reads an environment file as systemd does, as far as ours goes.
func variables(t *testing.T, name string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for i, line := range strings.Split(text(t, name), "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if _, twice := all[key]; !ok || twice || !regexp.MustCompile(`^[A-Z0-9_]+$`).MatchString(key) {
			t.Errorf("%s:%d: %q is no variable, or one that was set before", name, i+1, line)
		}
		all[key] = value
	}
	return all
}

func list(all map[string]string) []string {
	var environ []string
	for _, key := range slices.Sorted(maps.Keys(all)) {
		environ = append(environ, key+"="+all[key])
	}
	return environ
}

func TestUnitIsConfined(t *testing.T) {
	t.Parallel()
	got := unit(t)
	for name, want := range map[string]string{
		"DynamicUser": "yes", "ProtectSystem": "strict", "ProtectHome": "yes", "PrivateTmp": "yes", "PrivateDevices": "yes",
		"NoNewPrivileges": "yes", "CapabilityBoundingSet": "", "MemoryDenyWriteExecute": "yes", "RestrictNamespaces": "yes",
		"RestrictSUIDSGID": "yes", "ProtectKernelTunables": "yes", "ProtectControlGroups": "yes", "SystemCallArchitectures": "native",
		"Restart": "always", "KillSignal": "SIGTERM", "Type": "exec",
		// A configuration that is wrong is wrong every second.
		"RestartPreventExitStatus": "2",
	} {
		if diff := cmp.Diff([]string{want}, got["Service."+name]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if got["Service.User"] != nil {
		t.Error("it has a user of its own name, and a dynamic one")
	}
	if diff := cmp.Diff([]string{"0"}, got["Unit.StartLimitIntervalSec"]); diff != "" {
		t.Errorf("it gives up when Redis is away for long:\n%s", diff)
	}
}

func TestUnitWaitsForTheDrain(t *testing.T) {
	t.Parallel()
	cfg, err := config.Load("", list(filled(t))).Validate()
	if err != nil {
		t.Fatal(err)
	}
	stop, err := strconv.Atoi(strings.Join(unit(t)["Service.TimeoutStopSec"], " "))
	if err != nil {
		t.Fatal(err)
	}
	for _, may := range []time.Duration{cfg.Server.ShutdownSeconds.Duration(), defaults().Server.ShutdownSeconds.Duration()} {
		if time.Duration(stop)*time.Second < may+10*time.Second {
			t.Errorf("it is killed after %d s, and may take %v and a little", stop, may)
		}
	}
}

func defaults() *config.Config {
	c := config.Default()
	return &c
}

// filled is the example with what it asks for.
func filled(t *testing.T) map[string]string {
	t.Helper()
	all := variables(t, envFile)
	for name, value := range map[string]string{
		"LINGUA_AUTH_OPERATOR_KEYS": strings.Repeat("o", 16) + "," + strings.Repeat("p", 16), "LINGUA_AUTH_NODE_TOKENS": "gpu-*=" + strings.Repeat("n", 16),
		"LINGUA_AUTH_SESSION_SECRET": strings.Repeat("s", 32), "LINGUA_SCHEDULER_PHASE2_REDIS_PASSWORD": "r",
		"LINGUA_SERVER_ADVERTISE_URL": "http://10.0.0.1:5010",
	} {
		if old, there := all[name]; !there || old != "" {
			t.Errorf("%s: %s should be there to be filled in, and is %q", envFile, name, old)
		}
		all[name] = value
	}
	for name, value := range all {
		if value == "" {
			t.Errorf("%s: %s is empty, and this test does not fill it", envFile, name)
		}
	}
	return all
}

func TestExampleEnvironment(t *testing.T) {
	t.Parallel()
	given := variables(t, envFile)
	for name, value := range given {
		if secretName.MatchString(name) && value != "" {
			t.Errorf("%s has a value: an example has no secret", name)
		}
	}
	// As it stands it is refused, for the one reason that is meant.
	_, err := config.Load("", list(given)).Validate()
	if err == nil || strings.Count(err.Error(), "\n") != 0 || !strings.Contains(err.Error(), "without keys") {
		t.Errorf("without keys it should be refused for that, and not for %v", err)
	}
	cfg, err := config.Load("", list(filled(t))).Validate()
	if err != nil {
		t.Fatalf("filled in it should be fine: %v", err)
	}
	if _, shared, err := cfg.RedisAddress(); err != nil || !shared || len(cfg.Auth.OperatorKeys) != 2 {
		t.Errorf("shared %v, %v, %d keys", shared, err, len(cfg.Auth.OperatorKeys))
	}
	if diff := cmp.Diff([]string{"/etc/lingua/lingua.env"}, unit(t)["Service.EnvironmentFile"]); diff != "" {
		t.Errorf("the unit reads another file than the one that is spoken of:\n%s", diff)
	}
}

// systemd-analyze wants the program to be where the unit says, so it sees the unit with one that is there.
func TestUnitBySystemd(t *testing.T) {
	t.Parallel()
	binary := built(t)
	name := filepath.Join(t.TempDir(), "lingua.service")
	const start = "ExecStart=/usr/local/bin/lingua serve\n"
	body := text(t, unitFile)
	if !strings.Contains(body, start) {
		t.Fatalf("%s does not hold %q", unitFile, start)
	}
	if err := os.WriteFile(name, []byte(strings.Replace(body, start, "ExecStart="+binary+" serve\n", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	// Of a name it does not know it only warns.
	if said := tool(t, "systemd-analyze", "verify", "--man=no", name); strings.Contains(said, name) {
		t.Error(said)
	}
	// In tenths: 10 is open, 0 closed.
	tool(t, "systemd-analyze", "security", "--offline=yes", "--threshold=20", name)
}
