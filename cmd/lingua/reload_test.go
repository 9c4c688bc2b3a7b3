package main

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	firstOperator  = "operator-first-0123456789"
	secondOperator = "operator-second-0123456789"
)

// operatorsFile is a config file with operator keys.
func operatorsFile(more string, secrets ...string) string {
	text := "[callback]\nallowed_targets = []\n"
	for i, secret := range secrets {
		text += "[[auth.keys]]\nname = \"" + string(rune('a'+i)) + "\"\nrole = \"operator\"\nsha256 = [\"" + hashOf(secret) + "\"]\n"
	}
	return text + more
}

func rewrite(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestConfigReload: keys change without a restart, other keys are named, and a wrong file is answered with its errors.
func TestConfigReload(t *testing.T) {
	t.Parallel()
	file := writeConfig(t, operatorsFile("", firstOperator))
	s := startServer(t, "--config", file)
	reload := func(token string) result {
		return runCommand(t, "config", "reload", "--server", s.url, "--token", token)
	}
	if got := reload(firstOperator); got.code != exitOK || !strings.HasPrefix(got.out, "nothing has changed\n") {
		t.Errorf("exit %d: %s%s", got.code, got.out, got.err)
	}
	rewrite(t, file, operatorsFile("[scheduler.dispatch]\nmax_retry = 1\n", firstOperator, secondOperator))
	got := reload(firstOperator)
	if got.code != exitOK || !strings.HasPrefix(got.out, "key b added\nscheduler.dispatch.max_retry: needs a restart\ndigest of the keys: ") {
		t.Errorf("exit %d: %s%s", got.code, got.out, got.err)
	}
	digest := strings.Fields(got.out[strings.LastIndex(got.out, ": "):])[1]
	if got := runCommand(t, "instances", "--server", s.url, "--token", secondOperator); got.code != exitOK || !strings.Contains(got.out, "KEYS") {
		t.Errorf("exit %d: %s%s", got.code, got.out, got.err)
	}
	if got := runCommand(t, "keys", "check", file); !strings.Contains(got.out, "digest of all: "+digest+"\n") {
		t.Errorf("the file has another digest than %s:\n%s", digest, got.out)
	}
	rewrite(t, file, operatorsFile("[scheduler.dispatch]\nmax_retry = 99\n", secondOperator, "short"))
	if got := reload(firstOperator); got.code != exitFailed || !strings.Contains(got.err, "CONFIG_INVALID") || !strings.Contains(got.err, "max_retry") {
		t.Errorf("exit %d: %s%s", got.code, got.out, got.err)
	}
	if got := runCommand(t, "nodes", "--server", s.url, "--token", firstOperator); got.code != exitOK {
		t.Errorf("the first key, which the wrong file lacks: exit %d: %s", got.code, got.err)
	}
}

// TestReloadOnHangup: SIGHUP reloads the configuration.
func TestReloadOnHangup(t *testing.T) {
	t.Parallel()
	file := writeConfig(t, operatorsFile("", firstOperator))
	signals := make(chan os.Signal)
	s := startServerWithSignals(t, signals, "--config", file)
	rewrite(t, file, operatorsFile("", secondOperator))
	signals <- syscall.SIGHUP
	for deadline := time.Now().Add(20 * time.Second); ; {
		if runCommand(t, "nodes", "--server", s.url, "--token", secondOperator).code == exitOK {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the new key is not in force")
		}
	}
	if got := runCommand(t, "nodes", "--server", s.url, "--token", firstOperator); got.code != exitFailed || !strings.Contains(got.err, "UNAUTHORIZED") {
		t.Errorf("the removed key: exit %d: %s%s", got.code, got.out, got.err)
	}
}
