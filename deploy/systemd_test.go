package deploy_test

import (
	"errors"
	"fmt"
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
	keysFile = "systemd/lingua.toml.example"
)

// parseUnit parses the unit file: every value, by section and name.
func parseUnit(t *testing.T) map[string][]string {
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
				t.Fatalf("%s:%d: %q is not a setting", unitFile, i+1, line)
			}
			all[section+"."+name] = append(all[section+"."+name], value)
		}
	}
	return all
}

// parseEnvFile parses an environment file as systemd does, without quoting.
func parseEnvFile(t *testing.T, name string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for i, line := range strings.Split(text(t, name), "\n") {
		if line == "" || line[0] == '#' {
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if _, twice := all[key]; !ok || twice || !regexp.MustCompile(`^[A-Z0-9_]+$`).MatchString(key) {
			t.Errorf("%s:%d: %q is not a variable, or is set twice", name, i+1, line)
		}
		all[key] = value
	}
	return all
}

func environList(all map[string]string) []string {
	var environ []string
	for _, key := range slices.Sorted(maps.Keys(all)) {
		environ = append(environ, key+"="+all[key])
	}
	return environ
}

func TestUnitIsSandboxed(t *testing.T) {
	t.Parallel()
	got := parseUnit(t)
	for name, want := range map[string]string{
		"DynamicUser": "yes", "ProtectSystem": "strict", "ProtectHome": "yes", "PrivateTmp": "yes", "PrivateDevices": "yes",
		"NoNewPrivileges": "yes", "CapabilityBoundingSet": "", "MemoryDenyWriteExecute": "yes", "RestrictNamespaces": "yes",
		"RestrictSUIDSGID": "yes", "ProtectKernelTunables": "yes", "ProtectControlGroups": "yes", "SystemCallArchitectures": "native",
		"Restart": "always", "KillSignal": "SIGTERM", "Type": "exec",
		// Restarting does not correct an invalid configuration.
		"RestartPreventExitStatus": "2",
		"MemoryMax":                "1G", "IPAddressDeny": "any", "ExecReload": "/bin/kill -HUP $MAINPID", "SupplementaryGroups": "lingua",
	} {
		if diff := cmp.Diff([]string{want}, got["Service."+name]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	allowed := strings.Fields(strings.Join(got["Service.IPAddressAllow"], " "))
	if !slices.Contains(allowed, "localhost") || slices.Contains(allowed, "any") {
		t.Errorf("it may talk to %v", allowed)
	}
	if diff := cmp.Diff([]string{"GOMEMLIMIT=900MiB"}, got["Service.Environment"]); diff != "" {
		t.Errorf("the garbage collector does not know MemoryMax:\n%s", diff)
	}
	if got["Service.User"] != nil {
		t.Error("it has a fixed user and a dynamic one")
	}
	if diff := cmp.Diff([]string{"0"}, got["Unit.StartLimitIntervalSec"]); diff != "" {
		t.Errorf("it stops restarting if Redis is unavailable for long:\n%s", diff)
	}
}

func TestUnitStopTimeoutCoversTheDrain(t *testing.T) {
	t.Parallel()
	cfg, _, err := config.Load(filledKeys(t), environList(filledExample(t))).Validate()
	if err != nil {
		t.Fatal(err)
	}
	stop, err := strconv.Atoi(strings.Join(parseUnit(t)["Service.TimeoutStopSec"], " "))
	if err != nil {
		t.Fatal(err)
	}
	for _, may := range []time.Duration{cfg.Server.ShutdownSeconds.Duration(), defaults().Server.ShutdownSeconds.Duration()} {
		if time.Duration(stop)*time.Second < may+10*time.Second {
			t.Errorf("it is killed after %d s, but a shutdown may take %v and more", stop, may)
		}
	}
}

func defaults() *config.Config {
	c := config.Default()
	return &c
}

// filledExample returns the variables of the example with its placeholders filled in.
func filledExample(t *testing.T) map[string]string {
	t.Helper()
	all := parseEnvFile(t, envFile)
	for name, value := range map[string]string{
		"LINGUA_AUTH_CLUSTER_SECRET": strings.Repeat("c", 32), "LINGUA_SCHEDULER_PHASE2_REDIS_PASSWORD": "r",
		"LINGUA_SERVER_ADVERTISE_URL": "http://10.0.0.1:5010",
	} {
		if old, there := all[name]; !there || old != "" {
			t.Errorf("%s: %s should be an empty placeholder, and is %q", envFile, name, old)
		}
		all[name] = value
	}
	for name, value := range all {
		if value == "" {
			t.Errorf("%s: %s is empty, and this test has no value for it", envFile, name)
		}
	}
	return all
}

// filledKeys returns a copy of the example of keys with its placeholders filled in.
func filledKeys(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	signer := filepath.Join(dir, "signer-1")
	body := strings.Replace(text(t, keysFile), "/etc/lingua/signer-1\"", signer+"\"", 1)
	for i := 0; strings.Contains(body, "sha256 = []"); i++ {
		body = strings.Replace(body, "sha256 = []", fmt.Sprintf("sha256 = [\"%064x\"]", i+1), 1)
	}
	file := filepath.Join(dir, "lingua.toml")
	if err := errors.Join(os.WriteFile(signer, []byte(strings.Repeat("s", 32)+"\n"), 0o600), os.WriteFile(file, []byte(body), 0o600)); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestExampleEnvironmentIsValid(t *testing.T) {
	t.Parallel()
	given := parseEnvFile(t, envFile)
	for name, value := range given {
		if secretName.MatchString(name) && value != "" {
			t.Errorf("%s has a value: an example must not contain a secret", name)
		}
	}
	// Without secrets it is refused, for that reason only.
	_, _, err := config.Load(keysFile, environList(given)).Validate()
	if err == nil || strings.Count(err.Error(), "has no secret") != 3 && !strings.Contains(err.Error(), "/etc/lingua/signer-1") {
		t.Errorf("it should be refused because it has no secrets, not because of %v", err)
	}
	cfg, warnings, err := config.Load(filledKeys(t), environList(filledExample(t))).Validate()
	if err != nil || len(warnings) > 0 {
		t.Fatalf("filled in it should be valid: %v %q", err, warnings)
	}
	if _, shared, err := cfg.RedisAddress(); err != nil || !shared || len(cfg.Auth.Keys) != 3 {
		t.Errorf("shared %v, %v, %d keys", shared, err, len(cfg.Auth.Keys))
	}
	if diff := cmp.Diff([]string{"/etc/lingua/lingua.env"}, parseUnit(t)["Service.EnvironmentFile"]); diff != "" {
		t.Errorf("the unit reads another environment file:\n%s", diff)
	}
}

// TestSystemdAnalyze checks the unit with systemd-analyze, with another program, because the real one must exist.
func TestSystemdAnalyze(t *testing.T) {
	t.Parallel()
	binary := built(t)
	name := filepath.Join(t.TempDir(), "lingua.service")
	const start = "ExecStart=/usr/local/bin/lingua serve "
	body := text(t, unitFile)
	if !strings.Contains(body, start) {
		t.Fatalf("%s does not contain %q", unitFile, start)
	}
	if err := os.WriteFile(name, []byte(strings.Replace(body, start, "ExecStart="+binary+" serve ", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	// Unknown settings are only warnings.
	if output := tool(t, "systemd-analyze", "verify", "--man=no", name); strings.Contains(output, name) {
		t.Error(output)
	}
	// In tenths: 100 is without any sandbox.
	tool(t, "systemd-analyze", "security", "--offline=yes", "--threshold=20", name)
}
