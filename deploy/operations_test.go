package deploy_test

import (
	"bytes"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/scheduler"
	"github.com/lingua-scheduler/lingua/wire"
)

const (
	operationsPage = "../docs/operations.md"
	alertsPage     = "../docs/alerts.md"
)

var fence = regexp.MustCompile("(?s)```bash\n(.*?)```")

// commands are the lines that a reader may paste.
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
			t.Errorf("%s is not explained", a.Alert)
		case !strings.HasPrefix(body, "\n*"+a.Labels.Severity+".* "):
			t.Errorf("%s does not begin with its severity, %s", a.Alert, a.Labels.Severity)
		case len(commands(body)) == 0:
			t.Errorf("%s has no command to look with", a.Alert)
		}
	}
	for name := range sections {
		t.Errorf("%s is explained, and nobody raises it", name)
	}
}

func TestPageNamesCommandsThereAre(t *testing.T) {
	t.Parallel()
	binary := built(t)
	makefile := text(t, "../Makefile")
	seen := 0
	for _, line := range commands(text(t, operationsPage) + text(t, alertsPage)) {
		words := strings.Fields(line)
		switch {
		case len(words) > 1 && words[0] == "lingua":
			seen++
			command := words[1:2]
			if words[1] == "config" || words[1] == "dlq" {
				command = words[1:3]
			}
			help, err := exec.CommandContext(t.Context(), binary, append(slices.Clone(command), "--help")...).CombinedOutput()
			if err != nil {
				t.Errorf("%s: %v\n%s", line, err, help)
			}
			for _, w := range words {
				if strings.HasPrefix(w, "--") && !regexp.MustCompile(regexp.QuoteMeta(w)+`[= \n]`).Match(help) {
					t.Errorf("%s: there is no %s", line, w)
				}
			}
		case len(words) > 1 && words[0] == "make":
			seen++
			if !strings.Contains(makefile, "\n"+words[1]+":") {
				t.Errorf("%s: there is no such target", line)
			}
		}
	}
	if seen < 20 {
		t.Errorf("only %d commands were found", seen)
	}
}

// What is asked from inside the composition is asked of services that are there, with secrets that they have.
func TestPageAsksServicesThereAre(t *testing.T) {
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

// Redis notes what LATENCY DOCTOR is asked about only if it is told to.
func TestLatencyIsNoted(t *testing.T) {
	t.Parallel()
	if !slices.Contains(commands(text(t, operationsPage)+text(t, alertsPage)), "redis-cli LATENCY DOCTOR") {
		t.Fatal("nobody is told to ask")
	}
	if !regexp.MustCompile(`(?m)^latency-monitor-threshold [1-9]`).MatchString(text(t, "redis/redis.conf")) {
		t.Error("redis.conf does not set latency-monitor-threshold: there would be no answer")
	}
}

func TestPageNamesKeysAndMetricsThereAre(t *testing.T) {
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

func TestPageNamesRoutesThereAre(t *testing.T) {
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
	for _, route := range regexp.MustCompile("(?:`(?:GET |POST |PUT )?|:5010)(/(?:v1|healthz|readyz|metrics)[a-z0-9/]*)").FindAllStringSubmatch(text(t, operationsPage)+text(t, alertsPage), -1) {
		if !bytes.Contains(spec, []byte("\n  "+route[1]+":")) {
			t.Errorf("there is no %s", route[1])
		}
	}
}

// anchors are the headings of a page, as links name them.
func anchors(page string) map[string]bool {
	all := make(map[string]bool)
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(page, -1) {
		plain := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(m[1]), "")
		all[strings.ReplaceAll(plain, " ", "-")] = true
	}
	return all
}

// TestLinksOfPagesLeadSomewhere: every relative link of the documentation leads to a file that exists, and to a heading in it.
func TestLinksOfPagesLeadSomewhere(t *testing.T) {
	t.Parallel()
	var pages []string
	for _, pattern := range []string{"../*.md", "../docs/*.md", "../docs/decisions/*.md", "../examples/*/*.md", "../deploy/*.md"} {
		some, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, some...)
	}
	seen := 0
	for _, page := range pages {
		for _, m := range regexp.MustCompile(`\]\(([^)#: ]*)(?:#([^) ]*))?\)`).FindAllStringSubmatch(text(t, page), -1) {
			seen++
			target := page
			if m[1] != "" {
				target = filepath.Join(filepath.Dir(page), m[1])
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: a link leads to %s, which does not exist", page, m[1])
				continue
			}
			if m[2] != "" && !anchors(text(t, target))[m[2]] {
				t.Errorf("%s: a link leads to #%s of %s, which has no such heading", page, m[2], target)
			}
		}
	}
	if seen < 100 {
		t.Errorf("only %d links were found", seen)
	}
}
