package config_test

import (
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/config"
)

var discard = slog.New(slog.DiscardHandler)

// portSection puts server.port in force.
type portSection struct{ port int }

func (s *portSection) section() config.Section {
	return config.Section{Keys: []string{"server.port"}, Prepare: func(next *config.Config, _ config.ReloadRequest) (config.SectionChange, error) {
		if next.Server.Port == 13 {
			return config.SectionChange{}, errors.New("server.port: 13 is not possible")
		}
		var changed []string
		if next.Server.Port != s.port {
			changed = []string{"port changed"}
		}
		return config.SectionChange{Changed: changed, Apply: func() { s.port = next.Server.Port }}, nil
	}}
}

func TestReload(t *testing.T) {
	t.Parallel()
	start := config.Default()
	first, second := &portSection{start.Server.Port}, &portSection{start.Server.Port}
	r := config.NewReloader(start, discard)
	if _, err := r.Reload(config.ReloadRequest{}); !errors.Is(err, config.ErrNoSource) {
		t.Errorf("without a source: %v", err)
	}
	r.Register(first.section())
	r.Register(second.section())
	next := start
	var loadErr error
	r.SetSource(func() (config.Config, []string, error) { return next, []string{"a warning"}, loadErr })

	steps := []struct {
		name   string
		change func()
		want   config.ReloadResult
		port   int
	}{
		{"unchanged", func() {}, config.ReloadResult{Changed: []string{}, NeedsRestart: []string{}}, 5010},
		{"one of ours", func() { next.Server.Port = 6000 }, config.ReloadResult{Changed: []string{"port changed", "port changed"}, NeedsRestart: []string{}}, 6000},
		{"another too", func() { next.Log.Level, next.Server.Port = "debug", 7000 },
			config.ReloadResult{Changed: []string{"port changed", "port changed"}, NeedsRestart: []string{"log.level"}}, 7000},
		{"the other still waits", func() {}, config.ReloadResult{Changed: []string{}, NeedsRestart: []string{"log.level"}}, 7000},
		{"the other is back", func() { next.Log.Level = "info" }, config.ReloadResult{Changed: []string{}, NeedsRestart: []string{}}, 7000},
	}
	for _, step := range steps {
		step.change()
		got, err := r.Reload(config.ReloadRequest{})
		step.want.Warnings = []string{"a warning"}
		if diff := cmp.Diff(step.want, got); err != nil || diff != "" || first.port != step.port || second.port != step.port {
			t.Errorf("%s: %v, ports %d and %d (-want +got)\n%s", step.name, err, first.port, second.port, diff)
		}
	}
	var invalid *config.InvalidError
	next.Server.Port = 13 // both sections refuse it, and both say so
	if _, err := r.Reload(config.ReloadRequest{}); !errors.As(err, &invalid) || err.Error() != "server.port: 13 is not possible\nserver.port: 13 is not possible" {
		t.Errorf("a port that is refused: %v", err)
	}
	next.Server.Port, loadErr = 8000, errors.New("the file is not valid")
	if _, err := r.Reload(config.ReloadRequest{}); !errors.As(err, &invalid) || !errors.Is(err, loadErr) {
		t.Errorf("a file that is not valid: %v", err)
	}
	if force := r.InForce(); first.port != 7000 || second.port != 7000 || force.Config.Server.Port != 7000 {
		t.Errorf("a refused configuration is in force: %d, %d, %d", first.port, second.port, force.Config.Server.Port)
	}
}

// TestInForce: what a reload puts in force is that of the sections, and everything else stays as at the start.
func TestInForce(t *testing.T) {
	t.Parallel()
	r := config.NewReloader(config.Default(), discard)
	r.Register((&portSection{5010}).section())
	r.SetFile("a.toml")
	start := r.InForce()
	next := config.Default()
	next.Server.Port, next.Log.Level = 6000, "debug"
	r.SetSource(func() (config.Config, []string, error) { return next, nil, nil })
	if _, err := r.Reload(config.ReloadRequest{}); err != nil {
		t.Fatal(err)
	}
	force := r.InForce()
	if force.Config.Server.Port != 6000 || force.Config.Log.Level != "info" || force.File != "a.toml" || force.Loaded.Before(start.Loaded) {
		t.Errorf("%+v", force)
	}
	if diff := cmp.Diff([]string{"log.level"}, force.NeedsRestart); diff != "" || !force.Reloadable("server.port") || force.Reloadable("log.level") {
		t.Errorf("%s", diff)
	}
	if start.Config.Server.Port != 5010 || start.NeedsRestart != nil {
		t.Errorf("what was in force before has changed: %+v", start)
	}
}

// TestUnavailableSection: a section that needs something which does not answer is no error of the configuration, and changes nothing either. An
// error of the configuration comes first. Sections get the request, and their warnings are among those of the configuration.
func TestUnavailableSection(t *testing.T) {
	t.Parallel()
	s := &portSection{5010}
	next := config.Default()
	next.Server.Port = 6000
	r := config.NewReloader(config.Default(), discard)
	r.Register(s.section())
	errDown := errors.New("no answer")
	var failure error
	r.Register(config.Section{Prepare: func(_ *config.Config, request config.ReloadRequest) (config.SectionChange, error) {
		return config.SectionChange{Warnings: []string{fmt.Sprint("publish ", request.PublishPools)}}, failure
	}})
	r.SetSource(func() (config.Config, []string, error) { return next, []string{"of the file"}, nil })
	failure = &config.UnavailableError{Err: errDown}
	var invalid *config.InvalidError
	var unavailable *config.UnavailableError
	if _, err := r.Reload(config.ReloadRequest{}); !errors.As(err, &unavailable) || !errors.Is(err, errDown) || errors.As(err, &invalid) || s.port != 5010 {
		t.Errorf("port %d, %v", s.port, err)
	}
	next.Server.Port = 13
	if _, err := r.Reload(config.ReloadRequest{}); !errors.As(err, &invalid) || s.port != 5010 {
		t.Errorf("port %d, %v", s.port, err)
	}
	next.Server.Port, failure = 6000, nil
	got, err := r.Reload(config.ReloadRequest{PublishPools: true})
	if diff := cmp.Diff([]string{"of the file", "publish true"}, got.Warnings); err != nil || diff != "" || s.port != 6000 {
		t.Errorf("port %d, %v, warnings (-want +got)\n%s", s.port, err, diff)
	}
}

// TestRefusalOfOneSectionChangesNone: a section that comes after the others refuses for all of them.
func TestRefusalOfOneSectionChangesNone(t *testing.T) {
	t.Parallel()
	s := &portSection{5010}
	r := config.NewReloader(config.Default(), discard)
	r.Register(s.section())
	r.Register(config.Section{Prepare: func(*config.Config, config.ReloadRequest) (config.SectionChange, error) {
		return config.SectionChange{}, errors.New("no")
	}})
	r.SetSource(func() (config.Config, []string, error) {
		c := config.Default()
		c.Server.Port = 6000
		return c, nil, nil
	})
	if _, err := r.Reload(config.ReloadRequest{}); err == nil || s.port != 5010 {
		t.Errorf("port %d, %v", s.port, err)
	}
}
