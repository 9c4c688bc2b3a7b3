package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestInvalidVariable checks that the error names the variable and the type of its values, without Go terms.
func TestInvalidVariable(t *testing.T) {
	t.Parallel()
	for variable, want := range map[string]string{
		"LINGUA_SERVER_PORT=abc":                            `LINGUA_SERVER_PORT: "abc" is not a whole number`,
		"LINGUA_SERVER_PORT=1.5":                            `LINGUA_SERVER_PORT: "1.5" is not a whole number`,
		"LINGUA_SERVER_PORT=99999999999999999999":           `LINGUA_SERVER_PORT: "99999999999999999999" is out of range`,
		"LINGUA_SERVER_INSECURE=perhaps":                    `LINGUA_SERVER_INSECURE: "perhaps" is not true or false`,
		"LINGUA_SERVER_SHUTDOWN_SECONDS=20s":                `LINGUA_SERVER_SHUTDOWN_SECONDS: "20s" is not a whole number of seconds`,
		"LINGUA_SCHEDULER_DISPATCH_ACK_TIMEOUT_MS=2s":       `LINGUA_SCHEDULER_DISPATCH_ACK_TIMEOUT_MS: "2s" is not a whole number of milliseconds`,
		"LINGUA_SCHEDULER_RESOURCE_LIMITS_CPU_MAX=most":     `LINGUA_SCHEDULER_RESOURCE_LIMITS_CPU_MAX: "most" is not a number`,
		"LINGUA_SCHEDULER_RESOURCE_LIMITS_CPU_MAX=1e999999": `LINGUA_SCHEDULER_RESOURCE_LIMITS_CPU_MAX: "1e999999" is out of range`,
		"LINGUA_SERVR_PORT=1":                               "LINGUA_SERVR_PORT: there is no such variable; lingua config reference lists all variables",
	} {
		_, _, err := Load("", []string{variable}).Validate()
		if err == nil {
			t.Errorf("%s is accepted", variable)
			continue
		}
		if diff := cmp.Diff(want, err.Error()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", variable, diff)
		}
	}
}

// TestClientVariablesAreIgnored checks that LINGUA_URL, which clients of the scheduler read, is accepted.
func TestClientVariablesAreIgnored(t *testing.T) {
	t.Parallel()
	if _, err := load("", []string{"PATH=/bin", "LINGUA_URL=http://127.0.0.1:1", "LINGUA_SERVER_PORT=1"}); err != nil {
		t.Error(err)
	}
}

// TestErrorsHideSecrets checks that a possible secret is not printed, even if its key is misspelled or its type is wrong.
func TestErrorsHideSecrets(t *testing.T) {
	t.Parallel()
	file := writeFile(t, "[callback]\nsecret = [\"hunter2\"]\nsecrets = \"hunter2\"\n[log]\nlevel = 1\n[server]\napi_token = \"hunter2\"\n")
	_, _, err := Load(file, []string{"LINGUA_CALLBACK_SECRETS=hunter2"}).Validate()
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Fatalf("got %v, want problems without the value", err)
	}
	_, _, err = Load(writeFile(t, "callback.secret = 271828\n"), nil).Validate()
	if err == nil || strings.Contains(err.Error(), "271828") {
		t.Errorf("got %v, want a problem without the value", err)
	}
	_, _, err = Load(writeFile(t, "[callback]\nsecret = \"hunter2\n"), nil).Validate()
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("got %v, want a problem without the line", err)
	}
	for name, hidden := range map[string]bool{"callback.secret": true, "LINGUA_CALLBACK_SECRET": true, "a.Token": true, "a.password": true, "a.api_key": true, "server.port": false} {
		if got := describeValue(name, "x") != `"x"`; got != hidden {
			t.Errorf("%s: hidden %v, want %v", name, got, hidden)
		}
	}
}
