package deploy_test

import (
	"bytes"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/scheduler"
	"github.com/lingua-scheduler/lingua/wire"
)

// The pages with commands for operators.
const (
	operationsPage = "../docs/operations.md"
	alertsPage     = "../docs/alerts.md"
)

var fence = regexp.MustCompile("(?s)```bash\n(.*?)```")

// commands returns the commands of a page.
func commands(body string) []string {
	var all []string
	for _, m := range fence.FindAllStringSubmatch(body, -1) {
		for line := range strings.Lines(m[1]) {
			line, _, _ = strings.Cut(line, "  #")
			all = append(all, strings.TrimSpace(line))
		}
	}
	return all
}

func TestEveryAlertHasItsSection(t *testing.T) {
	t.Parallel()
	sections := make(map[string]string)
	for _, part := range strings.Split(text(t, alertsPage), "\n## ")[1:] {
		name, body, _ := strings.Cut(part, "\n")
		sections[name] = body
	}
	for _, a := range rules(t) {
		body, there := sections[a.Alert]
		delete(sections, a.Alert)
		switch {
		case !there:
			t.Errorf("%s has no section", a.Alert)
		case !strings.HasPrefix(body, "\n*"+a.Labels.Severity+".* "):
			t.Errorf("%s does not begin with its severity, %s", a.Alert, a.Labels.Severity)
		case len(commands(body)) == 0:
			t.Errorf("the section of %s has no command", a.Alert)
		}
	}
	for name := range sections {
		t.Errorf("there is no alert %s, but a section", name)
	}
}

// TestPageServicesExist checks that the commands of the page use services that exist, with secrets that they have.
func TestPageServicesExist(t *testing.T) {
	t.Parallel()
	c := compose(t)
	exec := regexp.MustCompile(`^docker compose -f deploy/compose\.yaml exec ([a-z0-9-]+) (.*)$`)
	seen := 0
	for _, line := range commands(text(t, operationsPage) + text(t, alertsPage)) {
		m := exec.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		seen++
		service, there := c.Services[m[1]]
		if !there {
			t.Errorf("%s: there is no service %s", line, m[1])
		}
		for _, secret := range regexp.MustCompile(`/run/secrets/([a-z.]+)`).FindAllStringSubmatch(m[2], -1) {
			if !slices.Contains(service.Secrets, secret[1]) {
				t.Errorf("%s: %s does not have the secret %s", line, m[1], secret[1])
			}
		}
		for _, host := range regexp.MustCompile(`http://([a-z0-9-]+):`).FindAllStringSubmatch(m[2], -1) {
			if _, there := c.Services[host[1]]; !there {
				t.Errorf("%s: there is no service %s", line, host[1])
			}
		}
	}
	if seen < 4 {
		t.Errorf("only %d commands were found", seen)
	}
}

// TestLatencyMonitorIsEnabled checks that redis.conf enables the monitor that LATENCY DOCTOR needs.
func TestLatencyMonitorIsEnabled(t *testing.T) {
	t.Parallel()
	if !slices.Contains(commands(text(t, operationsPage)+text(t, alertsPage)), "redis-cli LATENCY DOCTOR") {
		t.Fatal("the page does not mention LATENCY DOCTOR")
	}
	if !regexp.MustCompile(`(?m)^latency-monitor-threshold [1-9]`).MatchString(text(t, "redis/redis.conf")) {
		t.Error("redis.conf does not set latency-monitor-threshold")
	}
}

func TestPageKeysAndMetricsExist(t *testing.T) {
	t.Parallel()
	var reference bytes.Buffer
	if err := config.WriteReference(&reference); err != nil {
		t.Fatal(err)
	}
	var known []string
	section := ""
	for line := range strings.Lines(reference.String()) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "["); ok {
			section = strings.TrimSuffix(name, "]") + "."
		} else if name, _, ok := strings.Cut(line, " = "); ok && line[0] != '#' {
			known = append(known, section+name)
		}
	}
	there := metrics(t)
	body := text(t, operationsPage) + text(t, alertsPage)
	for _, key := range regexp.MustCompile(`\b(?:server|log|auth|callback|scheduler)\.[a-z0-9_]+(?:\.[a-z0-9_]+)*`).FindAllString(body, -1) {
		if !slices.Contains(known, key) {
			t.Errorf("there is no key %s", key)
		}
	}
	for _, name := range regexp.MustCompile(`\b(?:lingua|scheduler|node|pool)_[a-z_]+(?:_total|_seconds|_bytes|_ms)\b|\blingua_[a-z]+(?:_[a-z]+)*\b`).FindAllString(body, -1) {
		if _, ok := there[name]; !ok {
			t.Errorf("there is no metric %s", name)
		}
	}
}

func TestPageRoutesExist(t *testing.T) {
	t.Parallel()
	s, err := scheduler.New(t.Context(), config.Default(), wire.VersionResponse{Version: "0"}, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Store.Close()
	spec, err := s.Server.OpenAPI()
	if err != nil {
		t.Fatal(err)
	}
	for _, route := range regexp.MustCompile("(?:`(?:GET |POST |PUT )?|:5010)(/(?:v1|healthz|readyz|metrics)[a-z0-9/{}]*)").FindAllStringSubmatch(text(t, operationsPage)+text(t, alertsPage), -1) {
		if !bytes.Contains(spec, []byte("\n  "+route[1]+":")) {
			t.Errorf("there is no %s", route[1])
		}
	}
}
