package deploy_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const balancerFile = "haproxy/haproxy.cfg"

// directives are the lines of the balancer's configuration, by section, without comments.
func directives(t *testing.T) map[string][]string {
	t.Helper()
	all := make(map[string][]string)
	section := ""
	for line := range strings.Lines(text(t, balancerFile)) {
		bare := strings.TrimSpace(line)
		switch {
		case bare == "" || bare[0] == '#':
		case line[0] != ' ':
			section = bare
		default:
			all[section] = append(all[section], strings.Join(strings.Fields(bare), " "))
		}
	}
	return all
}

func TestBalancerKnowsEveryInstance(t *testing.T) {
	t.Parallel()
	c := compose(t)
	var want, got []string
	for _, name := range c.runs("serve") {
		cfg := c.configuration(t, name)
		want = append(want, fmt.Sprintf("server %s %s:%d", name, name, cfg.Server.Port))
	}
	lines := directives(t)
	for _, line := range lines["backend schedulers"] {
		if strings.HasPrefix(line, "server ") {
			got = append(got, line)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("instances (-compose +balancer):\n%s", diff)
	}
	for section, needed := range map[string][]string{
		// It asks what says no while an instance stops, and sends a refused connection to the next.
		"backend schedulers": {"option httpchk", "http-check send meth GET uri /readyz ver HTTP/1.1 hdr Host scheduler", "http-check expect status 200"},
		"defaults":           {"retry-on conn-failure", "option redispatch 1"},
		"frontend public":    {"bind :5010", "default_backend schedulers"},
	} {
		for _, line := range needed {
			if !slices.Contains(lines[section], line) {
				t.Errorf("%s: %q is missing", section, line)
			}
		}
	}
	mount := "./" + balancerFile + ":/usr/local/etc/haproxy/haproxy.cfg:ro"
	if s := c.Services["balancer"]; !slices.Contains(s.Volumes, mount) || !slices.Equal(s.Ports, []string{"127.0.0.1:5010:5010"}) {
		t.Errorf("the balancer does not read %s, or is not where it is looked for: %v %v", balancerFile, s.Volumes, s.Ports)
	}
}

// Silence that the schedulers allow must not be one that the balancer ends.
func TestBalancerIsMorePatientThanSchedulers(t *testing.T) {
	t.Parallel()
	const pings = 15 * time.Second // interval of the pings of a scheduler; it closes after two without a pong
	for _, line := range directives(t)["defaults"] {
		if value, ok := strings.CutPrefix(line, "timeout tunnel "); ok {
			if d, err := time.ParseDuration(value); err != nil || d < 3*pings {
				t.Errorf("%s: it cuts connections that are only silent (%v)", line, err)
			}
			return
		}
	}
	t.Error("there is no timeout for WebSockets: they would end like requests")
}

// Where the connections of each peer are counted behind a balancer, all of them are the balancer's.
func TestSomebodyLimitsConnections(t *testing.T) {
	t.Parallel()
	c := compose(t)
	for _, name := range c.runs("serve") {
		cfg := c.configuration(t, name)
		if n := max(cfg.Scheduler.Sessions.PerAddress, cfg.Server.PerAddress); n != 0 {
			t.Errorf("%s lets only %d connections in, as all of them come from the balancer", name, n)
		}
	}
	if !slices.ContainsFunc(directives(t)["frontend public"], func(line string) bool {
		return regexp.MustCompile(`^http-request deny deny_status 429 if \{ sc0_conn_cur gt \d+ \}$`).MatchString(line)
	}) {
		t.Error("nobody limits how many connections one peer has")
	}
}

// A balancer that may not open two files for each connection does not start.
func TestBalancerMayOpenItsFiles(t *testing.T) {
	t.Parallel()
	for _, line := range directives(t)["global"] {
		var most int
		if n, _ := fmt.Sscanf(line, "maxconn %d", &most); n == 1 {
			if files := compose(t).Services["balancer"].Ulimits["nofile"]; files < 2*most+1000 {
				t.Errorf("for %d connections it may open %d files", most, files)
			}
			return
		}
	}
	t.Error("there is no limit of connections")
}

// What follows a "?" in an address may be a token.
func TestBalancerLogsNoToken(t *testing.T) {
	t.Parallel()
	lines := directives(t)["defaults"]
	if slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, "option httplog") }) {
		t.Error("httplog writes whole addresses")
	}
	format := regexp.MustCompile(`log-format "([^"]*)"`).FindStringSubmatch(strings.Join(lines, "\n"))
	if format == nil {
		t.Fatal("there is no log-format of our own")
	}
	for _, whole := range []string{"%r", "%HU", "%HQ", "%hr", "%hs"} {
		if slices.Contains(strings.Fields(format[1]), whole) {
			t.Errorf("%s of %q writes what may be a token", whole, format[1])
		}
	}
}

func TestBalancerByItself(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "haproxy.cfg")
	if err := os.WriteFile(name, []byte(text(t, balancerFile)), 0o600); err != nil {
		t.Fatal(err)
	}
	tool(t, "haproxy", "-c", "-f", name)
}
