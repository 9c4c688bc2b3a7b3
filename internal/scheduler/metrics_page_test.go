package scheduler_test

import (
	"log/slog"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/scheduler"
	"github.com/lingua-scheduler/lingua/wire"
)

// family is a family of metrics, as a page describes it.
type family struct {
	Type   string
	Labels string // separated by commas
}

var descriptionPattern = regexp.MustCompile(`fqName: "([^"]+)".*variableLabels: \{([^}]*)\}`)

// registeredFamilies returns the families of a scheduler with everything configured, without those of the Go runtime and the process.
func registeredFamilies(t *testing.T) map[string]family {
	t.Helper()
	cfg := config.Default()
	cfg.Scheduler.ModelHub.URL = "http://hub.example/services"
	s, err := scheduler.New(t.Context(), cfg, wire.VersionResponse{}, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Store.Close()
	s.Metrics.LockWait.WithLabelValues("a lock that was waited for")
	gathered, err := s.Metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	types := make(map[string]string) // of those that have series by now, as every histogram has
	for _, f := range gathered {
		types[f.GetName()] = strings.ToLower(f.GetType().String())
	}
	descs := make(chan *prometheus.Desc)
	go func() {
		s.Metrics.Registry.Describe(descs)
		close(descs)
	}()
	all := make(map[string]family)
	for d := range descs {
		m := descriptionPattern.FindStringSubmatch(d.String())
		if m == nil {
			t.Errorf("cannot parse %s", d)
			continue
		}
		name := m[1]
		if strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "process_") {
			continue
		}
		kind := types[name]
		switch {
		case kind != "":
		case strings.HasSuffix(name, "_total"):
			kind = "counter"
		default:
			kind = "gauge"
		}
		labels := slices.Sorted(strings.SplitSeq(m[2], ","))
		all[name] = family{kind, strings.Join(labels, ", ")}
	}
	return all
}

// familyRow matches a row of a table of families in the page: name, type and labels.
var familyRow = regexp.MustCompile("(?m)^\\| `([a-z0-9_]+)` \\| (counter|gauge|histogram) \\| ([^|]*) \\| [^|]+ \\|$")

// TestMetricsPageAgreesWithRegistry checks that docs/metrics.md has every family of a scheduler, with its type and labels, and no other.
func TestMetricsPageAgreesWithRegistry(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := make(map[string]family)
	for _, m := range familyRow.FindAllStringSubmatch(string(page), -1) {
		if _, twice := documented[m[1]]; twice {
			t.Errorf("%s is documented twice", m[1])
		}
		labels := slices.Sorted(strings.SplitSeq(strings.ReplaceAll(strings.TrimSpace(m[3]), "`", ""), ", "))
		documented[m[1]] = family{m[2], strings.Join(labels, ", ")}
	}
	if diff := cmp.Diff(registeredFamilies(t), documented); diff != "" {
		t.Errorf("families (-registered +documented):\n%s", diff)
	}
}

// TestOpenMetricsNamesAreUnique checks that no two families have the same name in the OpenMetrics format, which drops the _total of counters.
func TestOpenMetricsNamesAreUnique(t *testing.T) {
	t.Parallel()
	all := registeredFamilies(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if short, counter := strings.CutSuffix(name, "_total"); counter {
			if _, taken := all[short]; taken {
				t.Errorf("%s and %s are one family in OpenMetrics", short, name)
			}
		}
	}
}
