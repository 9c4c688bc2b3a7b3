package core

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEffectiveHealth(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		health  Health
		drained bool
		want    Health
	}{
		{HealthReady, false, HealthReady},
		{HealthDegraded, false, HealthDegraded},
		{HealthDraining, false, HealthDraining},
		{HealthOffline, false, HealthOffline},
		{HealthReady, true, HealthDraining},
		{HealthDegraded, true, HealthDraining},
		{HealthDraining, true, HealthDraining},
		{HealthOffline, true, HealthOffline}, // what is gone is not draining
	} {
		n := Node{Declaration: Declaration{Health: c.health}, Drained: c.drained}
		if got := n.EffectiveHealth(); got != c.want {
			t.Errorf("%s, drained %v: stands as %s, want %s", c.health, c.drained, got, c.want)
		}
	}
}

func TestReachable(t *testing.T) {
	t.Parallel()
	if (&Node{}).Reachable() {
		t.Error("a node without a way to it is reachable")
	}
	if !(&Node{Declaration: Declaration{Callback: "http://127.0.0.1:1"}}).Reachable() {
		t.Error("a node with a callback is not reachable")
	}
}

func someNode() Node {
	return Node{
		ID: "n1", Epoch: 7, Revision: 3, Version: 10, Declaration: Declaration{Health: HealthReady, MaxJobs: 4, Capability: *translator(fillLists),
			Region: "eu", Zone: "a", Tenant: "acme", Callback: "http://127.0.0.1:9/job"},
	}
}

// TestSupersedeRevision checks which changes make a new revision. Those that the ledger checks at each reservation (health,
// drain, slots) must not, or every heartbeat would refuse reservations; everything else that a selection depends on must.
func TestSupersedeRevision(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(*Node)
		same   bool // declares the same
		served bool // serves the same
	}{
		{"nothing", func(*Node) {}, true, true},
		{"epoch", func(n *Node) { n.Epoch = 99 }, true, true},
		{"revision and version", func(n *Node) { n.Revision, n.Version = 99, 99 }, true, true},
		{"health", func(n *Node) { n.Health = HealthDegraded }, false, true},
		{"drain", func(n *Node) { n.Drained = true }, false, true},
		{"maximum", func(n *Node) { n.MaxJobs = 1 }, false, true},
		{"admission", func(n *Node) { n.Admission = Admission{Limited: true, Reason: AdmissionFailing} }, false, true},
		{"region", func(n *Node) { n.Region = "us" }, false, false},
		{"zone", func(n *Node) { n.Zone = "b" }, false, false},
		{"tenant", func(n *Node) { n.Tenant = "other" }, false, false},
		{"callback", func(n *Node) { n.Callback = "http://127.0.0.1:10/job" }, false, false},
		{"recognised language", func(n *Node) { n.ASR = LangSet{"zh"} }, false, false},
		{"model", func(n *Node) { n.Models = nil }, false, false},
		{"state of a service", func(n *Node) { n.Services = []Service{{ID: "asr", Status: ServiceError}} }, false, false},
		{"type", func(n *Node) { n.Types.TTS = No }, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			old, next := someNode(), someNode()
			c.change(&next)
			if got := next.SameDeclaration(&old); got != c.same {
				t.Errorf("SameAs = %v, want %v", got, c.same)
			}
			if got := next.SameService(&old); got != c.served {
				t.Errorf("SameService = %v, want %v", got, c.served)
			}

			declared := next
			next.Supersede(&old)
			want := declared
			want.Epoch, want.Version, want.Revision = 7, 11, 3
			if !c.served {
				want.Revision = 4
			}
			if diff := cmp.Diff(want, next); diff != "" {
				t.Errorf("followed (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(someNode(), old); diff != "" {
				t.Errorf("the old node changed (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSupersedeCountsEachChange(t *testing.T) {
	t.Parallel()
	first := someNode()
	second := first
	second.Region = "us"
	second.Supersede(&first)
	third := second
	third.Health = HealthDraining
	third.Supersede(&second)
	back := third
	back.Region = "eu" // as it was once, but not as it was last
	back.Supersede(&third)

	type count struct {
		Revision Revision
		Version  Version
	}
	got := []count{{second.Revision, second.Version}, {third.Revision, third.Version}, {back.Revision, back.Version}}
	if diff := cmp.Diff([]count{{4, 11}, {4, 12}, {5, 13}}, got); diff != "" {
		t.Errorf("revisions and versions (-want +got):\n%s", diff)
	}
}

// TestSupersedeSetsSinceWhenServicesAreReady: a service is ready since the version at which its status became ready, whatever else
// changes.
func TestSupersedeSetsSinceWhenServicesAreReady(t *testing.T) {
	t.Parallel()
	last := Node{Version: 4}
	declare := func(region string, services ...Service) []Service {
		t.Helper()
		next := last
		next.Region, next.Services = region, services
		next.Supersede(&last)
		last = next
		return last.Services
	}
	asr := func(version string, status ServiceStatus, since Version) Service {
		return Service{ID: "asr", Version: version, Type: "asr", Status: status, ReadySince: since}
	}
	for _, step := range []struct {
		name   string
		region string
		given  []Service
		want   []Service
	}{
		{"added", "", []Service{asr("1", ServiceReady, 0)}, []Service{asr("1", ServiceReady, 5)}},
		{"repeated", "", []Service{asr("1", ServiceReady, 0)}, []Service{asr("1", ServiceReady, 5)}},
		{"another field changed", "eu", []Service{asr("1", ServiceReady, 0)}, []Service{asr("1", ServiceReady, 5)}},
		{"another version added", "eu", []Service{asr("1", ServiceReady, 0), asr("2", ServiceInstalling, 0)}, []Service{asr("1", ServiceReady, 5), asr("2", ServiceInstalling, 0)}},
		{"the other became ready", "eu", []Service{asr("1", ServiceReady, 0), asr("2", ServiceReady, 0)}, []Service{asr("1", ServiceReady, 5), asr("2", ServiceReady, 9)}},
		{"the first failed", "eu", []Service{asr("1", ServiceError, 0), asr("2", ServiceReady, 0)}, []Service{asr("1", ServiceError, 0), asr("2", ServiceReady, 9)}},
		{"it recovered", "eu", []Service{asr("1", ServiceReady, 99), asr("2", ServiceReady, 99)}, []Service{asr("1", ServiceReady, 11), asr("2", ServiceReady, 9)}},
		{"removed", "eu", nil, nil},
	} {
		before := slices.Clone(step.given)
		if diff := cmp.Diff(step.want, declare(step.region, step.given...)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.name, diff)
		}
		if !slices.Equal(before, step.given) {
			t.Errorf("%s: the list that was given has changed: %v", step.name, step.given)
		}
	}
}

// TestUnknownLoadIsNegative checks that an unknown load differs from an idle and from a busy machine.
func TestUnknownLoadIsNegative(t *testing.T) {
	t.Parallel()
	for _, v := range []float64{UnknownLoad.CPU, UnknownLoad.GPU, UnknownLoad.Memory} {
		if v >= 0 {
			t.Errorf("unknown is %v, want less than 0", v)
		}
	}
}
