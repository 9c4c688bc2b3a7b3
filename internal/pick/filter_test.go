package pick_test

import (
	"strings"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// circumstance is something about a node or a job that a filter looks at.
type circumstance struct {
	name   string
	reason core.Reason
	arise  func(*scene)
}

func declares(change func(*core.Node)) func(*scene) { return func(s *scene) { change(&s.node) } }

func asks(change func(*core.Options)) func(*scene) { return func(s *scene) { change(s.query.Options) } }

func both(a, b func(*scene)) func(*scene) {
	return func(s *scene) {
		a(s)
		b(s)
	}
}

func healthy(h core.Health) func(*scene) { return declares(func(n *core.Node) { n.Health = h }) }

func needsService(id string) func(*scene) {
	return asks(func(o *core.Options) { o.RequiredServices = append(o.RequiredServices, id) })
}

func hasService(id string, statuses ...core.ServiceStatus) func(*scene) {
	return declares(func(n *core.Node) {
		for i, s := range statuses {
			n.Capability.Services = append(n.Capability.Services, core.Service{ID: id, Version: string(rune('1' + i)), Status: s})
		}
	})
}

// installed has the node declare services of a type, named by the type and their number.
func installed(kind string, statuses ...core.ServiceStatus) func(*scene) {
	return declares(func(n *core.Node) {
		for i, s := range statuses {
			id := strings.ToLower(kind) + "-" + string(rune('1'+i))
			n.Capability.Services = append(n.Capability.Services, core.Service{ID: id, Type: kind, Status: s})
		}
	})
}

func service(id string, statuses ...core.ServiceStatus) func(*scene) {
	return both(needsService(id), hasService(id, statuses...))
}

// hasModel has the job ask for a model, which the node has.
func hasModel(s *scene) {
	s.node.Capability.Models = []string{"small"}
	s.query.Options.RequiredModels = []string{"small"}
}

func marked(id string, d time.Duration) func(*scene) {
	return func(s *scene) {
		s.later(func(f *fleet.Fleet, _ *fleet.Node) { f.Mark(store.Mark{Node: "a", Service: id, For: d}) })
	}
}

func passes(d time.Duration) func(*scene) {
	return func(s *scene) { s.later(func(*fleet.Fleet, *fleet.Node) { time.Sleep(d) }) }
}

func missed(times int) func(*scene) {
	return func(s *scene) {
		s.later(func(f *fleet.Fleet, n *fleet.Node) {
			for range times {
				n.RecordMissedACK(f.Now())
			}
		})
	}
}

// flaws are all the reasons for which a node can be passed over. Any two can arise together.
var flaws = []circumstance{
	// What it could never do as it is registered.
	{"the source is not understood", core.ReasonSemanticLang, declares(func(n *core.Node) { n.Capability.Semantic = core.NewLangSet("de", "fr") })},
	{"it does no semantic repair", core.ReasonSemanticLang, declares(func(n *core.Node) { n.Capability.Types.Semantic = core.No })},
	{"the source is not recognised", core.ReasonASRLang, declares(func(n *core.Node) { n.Capability.ASR = core.NewLangSet("fr") })},
	{"it does no recognition", core.ReasonASRLang, declares(func(n *core.Node) { n.Capability.Types.ASR = core.No })},
	{"the pair is not translated", core.ReasonNMTPair, declares(func(n *core.Node) {
		n.Capability.AnyPair, n.Capability.Pairs = false, []core.Direction{{Src: "de", Tgt: "en"}}
	})},
	{"it does no translation", core.ReasonNMTPair, declares(func(n *core.Node) { n.Capability.Types.NMT = core.No })},
	{"the target is not spoken", core.ReasonTTSLang, declares(func(n *core.Node) { n.Capability.TTS = nil })},
	{"it does no speech", core.ReasonTTSLang, declares(func(n *core.Node) { n.Capability.Types.TTS = core.No })},
	{"it is another tenant's", core.ReasonTenant, declares(func(n *core.Node) { n.Tenant = "other" })},
	{"it is in another region", core.ReasonRegion, both(declares(func(n *core.Node) { n.Region = "us" }), asks(func(o *core.Options) { o.Region = "eu" }))},
	{"a model is missing", core.ReasonModelMissing, both(
		declares(func(n *core.Node) { n.Capability.Models = []string{"small"} }),
		asks(func(o *core.Options) { o.RequiredModels = []string{"small", "large"} }))},
	{"a service is missing", core.ReasonServiceMissing, needsService("missing")},
	{"a feature is missing", core.ReasonFeatureMissing, asks(func(o *core.Options) { o.Features = []string{"tone"} })},

	// What it cannot do now.
	{"it is degraded", core.ReasonNotReady, healthy(core.HealthDegraded)},
	{"it is draining", core.ReasonNotReady, healthy(core.HealthDraining)},
	{"it is offline", core.ReasonNotReady, healthy(core.HealthOffline)},
	{"it is drained", core.ReasonDrained, declares(func(n *core.Node) { n.Drained = true })},
	{"its connection is lost", core.ReasonDisconnected, declares(func(n *core.Node) { n.Disconnected = true })},
	{"its connection is lost and it is drained", core.ReasonDrained, declares(func(n *core.Node) { n.Disconnected, n.Drained = true, true })},
	{"it is offline and its connection is lost", core.ReasonNotReady, declares(func(n *core.Node) { n.Disconnected, n.Health = true, core.HealthOffline })},
	{"it was not heard lately", core.ReasonStale, passes(15*time.Second + 1)},
	{"it cannot be reached", core.ReasonUnreachable, declares(func(n *core.Node) { n.Callback = "" })},
	{"it has no slots", core.ReasonNoCapacity, declares(func(n *core.Node) { n.MaxJobs = 0 })},
	{"it had the job before", core.ReasonTried, func(s *scene) { s.query.Tried = []core.NodeID{"z", "a"} }},
	{"its CPU is over the limit", core.ReasonCPU, func(s *scene) { s.load.CPU = 0.9502 }},
	{"its GPU is over the limit", core.ReasonGPU, func(s *scene) { s.load.GPU = 0.9802 }},
	{"its memory is over the limit", core.ReasonMemory, func(s *scene) { s.load.Memory = 0.9502 }},
	{"its ASR is being downloaded", core.ReasonASRNotReady, installed("asr", core.ServiceDownloading, core.ServiceError)},
	{"its only ASR is marked", core.ReasonASRNotReady, both(installed("asr", core.ServiceReady), marked("asr-1", time.Hour))},
	{"its semantic repair is stopped", core.ReasonSemanticNotReady, installed("semantic", core.ServiceStopped)},
	{"its NMT is broken", core.ReasonNMTNotReady, installed("NMT", core.ServiceError)},
	{"its TTS is being verified", core.ReasonTTSNotReady, installed("tts", core.ServiceVerifying)},
	{"a service is being downloaded", core.ReasonServiceNotReady, service("downloading", core.ServiceDownloading)},
	{"a service is being verified", core.ReasonServiceNotReady, service("verifying", core.ServiceVerifying)},
	{"a service is being installed", core.ReasonServiceNotReady, service("installing", core.ServiceInstalling)},
	{"a service is stopped", core.ReasonServiceNotReady, service("stopped", core.ServiceStopped)},
	{"a service is broken", core.ReasonServiceNotReady, service("broken", core.ServiceError, core.ServiceStopped)},
	{"a service is marked", core.ReasonMarked, both(service("marked", core.ServiceReady), marked("marked", time.Hour))},

	// What somebody would rather avoid.
	{"it is set aside", core.ReasonSetAside, missed(12)},
	{"it had the session's last utterance", core.ReasonSpread, func(s *scene) { s.query.Avoid = "a" }},
}

// merits look like flaws and are none.
var merits = []circumstance{
	{name: "nothing at all", arise: func(*scene) {}},
	{name: "its tenant's own job", arise: both(declares(func(n *core.Node) { n.Tenant = "acme" }), func(s *scene) { s.query.Tenant = "acme" })},
	{name: "a tenant's job on everybody's node", arise: func(s *scene) { s.query.Tenant = "acme" }},
	{name: "the region that is asked for", arise: both(declares(func(n *core.Node) { n.Region = "eu" }), asks(func(o *core.Options) { o.Region = "eu" }))},
	{name: "a region nobody asked for", arise: declares(func(n *core.Node) { n.Region = "eu" })},
	{name: "all the models", arise: both(
		declares(func(n *core.Node) { n.Capability.Models = []string{"small", "large", "other"} }),
		asks(func(o *core.Options) { o.RequiredModels = []string{"large", "small"} }))},
	{name: "a tenant's demanding job on everybody's node", arise: both(hasModel, func(s *scene) { s.query.Tenant = "acme" })},
	{name: "a demanding job from anywhere, on a node in a region", arise: both(hasModel, declares(func(n *core.Node) { n.Region = "eu" }))},
	{name: "all the features", arise: both(
		declares(func(n *core.Node) { n.Capability.Features, n.Capability.Types.Tone = []string{"glossary"}, core.Yes }),
		asks(func(o *core.Options) { o.Features = []string{"tone", "glossary"} }))},
	{name: "a service that is ready", arise: service("asr", core.ServiceReady)},
	{name: "a service with one version ready", arise: service("asr", core.ServiceError, core.ServiceReady, core.ServiceDownloading)},
	{name: "a broken service nobody asked for", arise: hasService("asr", core.ServiceError)},
	{name: "a mark on a service nobody asked for", arise: both(service("asr", core.ServiceReady), marked("nmt", time.Hour))},
	{name: "a mark that has expired", arise: both(service("asr", core.ServiceReady), both(marked("asr", time.Second), passes(time.Second)))},
	{name: "one service of each type ready", arise: both(
		both(installed("asr", core.ServiceError, core.ServiceReady), installed("semantic", core.ServiceReady)),
		both(installed("nmt", core.ServiceReady, core.ServiceDownloading), installed("tts", core.ServiceReady)))},
	{name: "speech that is not ready, and none asked for", arise: both(installed("tts", core.ServiceError), func(s *scene) { s.tts = false })},
	{name: "a broken service of a type that no job needs", arise: installed("tone", core.ServiceError)},
	{name: "a broken service of no type", arise: installed("", core.ServiceError)},
	{name: "a mark on one of two services of a type", arise: both(installed("asr", core.ServiceReady, core.ServiceReady), marked("asr-1", time.Hour))},
	{name: "a mark on a service it never declared", arise: both(installed("asr", core.ServiceReady), marked("asr-9", time.Hour))},
	{name: "an expired mark on its only service of a type", arise: both(installed("asr", core.ServiceReady), both(marked("asr-1", time.Second), passes(time.Second)))},
	{name: "no speech, and none asked for", arise: both(declares(func(n *core.Node) { n.Capability.TTS = nil }), func(s *scene) { s.tts = false })},
	{name: "a heartbeat just within the time", arise: passes(15 * time.Second)},
	{name: "one slot", arise: declares(func(n *core.Node) { n.MaxJobs = 1 })},
	{name: "others had the job before", arise: func(s *scene) { s.query.Tried = []core.NodeID{"b", "c"} }},
	{name: "another had the last utterance", arise: func(s *scene) { s.query.Avoid = "b" }},
	{name: "loads exactly at their limits", arise: func(s *scene) { s.load = core.Load{CPU: 0.95, GPU: 0.98, Memory: 0.95} }},
	{name: "no load at all", arise: func(s *scene) { s.load = core.Load{} }},
	{name: "unknown loads under the strictest limits", arise: func(s *scene) { s.policy.CPUMax, s.policy.GPUMax, s.policy.MemoryMax = 0, 0, 0 }},
	{name: "full loads under no limits", arise: func(s *scene) {
		s.load = core.Load{CPU: 1, GPU: 1, Memory: 1}
		s.policy.CPUMax, s.policy.GPUMax, s.policy.MemoryMax = 1, 1, 1
	}},
	{name: "a miss that is long past", arise: both(missed(1), passes(5*time.Second))},
	{name: "misses that were made good", arise: both(missed(3), func(s *scene) {
		s.later(func(_ *fleet.Fleet, n *fleet.Node) { n.ClearMissedACKs() })
	})},
}

func TestEveryFilterGivesItsReason(t *testing.T) {
	t.Parallel()
	for _, c := range flaws {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := newScene(c.arise).play(t); got != c.reason {
				t.Errorf("objection %q, want %q", got, c.reason)
			}
		})
	}
}

func TestNothingElseIsHeldAgainstANode(t *testing.T) {
	t.Parallel()
	for _, c := range merits {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := newScene(c.arise).play(t); got != core.ReasonNone {
				t.Errorf("objection %q, want none", got)
			}
		})
	}
}

// rank puts what a node could never do before what it cannot do now, and preferences last.
func rank(r core.Reason) int {
	switch {
	case r.Incapable():
		return 0
	case r.Soft():
		return 2
	}
	return 1
}

// Of two objections the graver is given: a node that could never serve is not called full or late, and one
// that cannot serve now is not tried as if only a preference spoke against it.
func TestTheGraverObjectionIsGiven(t *testing.T) {
	t.Parallel()
	for _, a := range flaws {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			for _, b := range flaws {
				// In either order, in case one undoes what the other did.
				got := newScene(a.arise, b.arise).play(t)
				want := []core.Reason{a.reason, b.reason}
				switch {
				case rank(a.reason) < rank(b.reason):
					want = want[:1]
				case rank(a.reason) > rank(b.reason):
					want = want[1:]
				}
				if got != want[0] && got != want[len(want)-1] {
					t.Errorf("%s and %s: objection %q, want %q", a.name, b.name, got, want)
				}
			}
		})
	}
}
