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

// directives returns the lines of haproxy.cfg by section, without comments. `haproxy -c` checks the syntax.
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

func TestBalancerHasEveryInstance(t *testing.T) {
	t.Parallel()
	c := compose(t)
	var want []string
	for _, name := range c.servicesRunning("serve") {
		cfg := c.config(t, name)
		want = append(want, fmt.Sprintf("server %s %s:%d", name, name, cfg.Server.Port))
	}
	lines := directives(t)
	for _, backend := range []string{"backend schedulers", "backend operators"} {
		var got []string
		for _, line := range lines[backend] {
			if strings.HasPrefix(line, "server ") {
				got = append(got, line)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("instances of the %s (-compose +balancer):\n%s", backend, diff)
		}
	}
	for section, needed := range map[string][]string{
		// An instance that shuts down gets no new connections, and a refused one is retried on the next.
		"backend schedulers": {"option httpchk", "http-check send meth GET uri /readyz ver HTTP/1.1 hdr Host scheduler", "http-check expect status 200 error-status L7OKC"},
		"defaults":           {"retry-on conn-failure", "option redispatch 1"},
		"frontend public":    {"bind :5010", "default_backend schedulers", "http-request deny deny_status 404 unless for_clients"},
		"frontend operators": {"bind :5011", "default_backend operators"},
	} {
		for _, line := range needed {
			if !slices.Contains(lines[section], line) {
				t.Errorf("%s: %q is missing", section, line)
			}
		}
	}
	mount := "./" + balancerFile + ":/usr/local/etc/haproxy/haproxy.cfg:ro"
	if s := c.Services["balancer"]; !slices.Contains(s.Volumes, mount) || !slices.Equal(s.Ports, []string{"127.0.0.1:5010:5010", "127.0.0.1:5011:5011"}) {
		t.Errorf("the balancer does not mount %s, or has another port: %v %v", balancerFile, s.Volumes, s.Ports)
	}
}

// TestBalancerTimeoutExceedsPingInterval checks that the balancer does not close idle WebSockets that schedulers keep open.
func TestBalancerTimeoutExceedsPingInterval(t *testing.T) {
	t.Parallel()
	const pings = 15 * time.Second // interval of the pings of a scheduler; it closes after two without a pong
	for _, line := range directives(t)["defaults"] {
		if value, ok := strings.CutPrefix(line, "timeout tunnel "); ok {
			if d, err := time.ParseDuration(value); err != nil || d < 3*pings {
				t.Errorf("%s: it closes idle connections too early (%v)", line, err)
			}
			return
		}
	}
	t.Error("there is no timeout tunnel for WebSockets")
}

// TestBalancerLimitsConnections checks that the balancer limits connections by client: schedulers see only its address.
func TestBalancerLimitsConnections(t *testing.T) {
	t.Parallel()
	c := compose(t)
	for _, name := range c.servicesRunning("serve") {
		cfg := c.config(t, name)
		if n := max(cfg.Scheduler.Sessions.PerAddress, cfg.Server.PerAddress); n != 0 {
			t.Errorf("%s accepts only %d connections of the balancer", name, n)
		}
	}
	if !slices.ContainsFunc(directives(t)["frontend public"], func(line string) bool {
		return regexp.MustCompile(`^http-request deny deny_status 429 if \{ sc0_conn_cur gt \d+ \}$`).MatchString(line)
	}) {
		t.Error("the balancer does not limit the connections of a client")
	}
}

// TestBalancerFileLimit checks that the balancer may open two files for each connection, or it does not start.
func TestBalancerFileLimit(t *testing.T) {
	t.Parallel()
	for _, line := range directives(t)["global"] {
		var maxConn int
		if n, _ := fmt.Sscanf(line, "maxconn %d", &maxConn); n == 1 {
			if files := compose(t).Services["balancer"].Ulimits["nofile"]; files < 2*maxConn+1000 {
				t.Errorf("for %d connections it may open %d files", maxConn, files)
			}
			return
		}
	}
	t.Error("there is no limit of connections")
}

// TestBalancerLogsNoToken checks that the log has no query of a URL, which may hold a token.
func TestBalancerLogsNoToken(t *testing.T) {
	t.Parallel()
	lines := directives(t)["defaults"]
	if slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, "option httplog") }) {
		t.Error("httplog logs whole URLs")
	}
	format := regexp.MustCompile(`log-format "([^"]*)"`).FindStringSubmatch(strings.Join(lines, "\n"))
	if format == nil {
		t.Fatal("there is no log-format")
	}
	for _, whole := range []string{"%r", "%HU", "%HQ", "%hr", "%hs"} {
		if slices.Contains(strings.Fields(format[1]), whole) {
			t.Errorf("%s of %q may log a token", whole, format[1])
		}
	}
}

func TestHAProxyCheck(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "haproxy.cfg")
	if err := os.WriteFile(name, []byte(text(t, balancerFile)), 0o600); err != nil {
		t.Fatal(err)
	}
	tool(t, "haproxy", "-c", "-f", name)
}
