package pick_test

import (
	"strings"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// condition is a property of a node or a job that a filter reads.
type condition struct {
	name   string
	reason core.Reason
	apply  func(*filterCase)
}

func withNode(change func(*core.Node)) func(*filterCase) {
	return func(s *filterCase) { change(&s.node) }
}

func withOptions(change func(*core.Options)) func(*filterCase) {
	return func(s *filterCase) { change(s.query.Options) }
}

func both(a, b func(*filterCase)) func(*filterCase) {
	return func(s *filterCase) {
		a(s)
		b(s)
	}
}

func withHealth(h core.Health) func(*filterCase) {
	return withNode(func(n *core.Node) { n.Health = h })
}

func requireService(id string) func(*filterCase) {
	return withOptions(func(o *core.Options) { o.RequiredServices = append(o.RequiredServices, id) })
}

func declareService(id string, statuses ...core.ServiceStatus) func(*filterCase) {
	return withNode(func(n *core.Node) {
		for i, s := range statuses {
			n.Services = append(n.Services, core.Service{ID: id, Version: string(rune('1' + i)), Status: s})
		}
	})
}

// declareServicesOfType has the node declare services of a type, named by the type and their number.
func declareServicesOfType(kind string, statuses ...core.ServiceStatus) func(*filterCase) {
	return withNode(func(n *core.Node) {
		for i, s := range statuses {
			id := strings.ToLower(kind) + "-" + string(rune('1'+i))
			n.Services = append(n.Services, core.Service{ID: id, Type: kind, Status: s})
		}
	})
}

func requireAndDeclare(id string, statuses ...core.ServiceStatus) func(*filterCase) {
	return both(requireService(id), declareService(id, statuses...))
}

// requireAndDeclareModel has the job require a model that the node has.
func requireAndDeclareModel(s *filterCase) {
	s.node.Models = []string{"small"}
	s.query.Options.RequiredModels = []string{"small"}
}

func markService(id string, d time.Duration) func(*filterCase) {
	return func(s *filterCase) {
		s.after(func(f *fleet.Fleet, _ *fleet.Node) { markNow(f, store.Mark{Node: "a", Service: id, For: d}) })
	}
}

// markVersion marks one version of a service.
func markVersion(id, version string) func(*filterCase) {
	return func(s *filterCase) {
		s.after(func(f *fleet.Fleet, _ *fleet.Node) {
			markNow(f, store.Mark{Node: "a", Service: id, Version: version, For: time.Hour})
		})
	}
}

// markNow marks a service of a node as the node is now.
func markNow(f *fleet.Fleet, m store.Mark) {
	declared := f.Node(m.Node).Declared()
	m.Epoch, m.NodeVersion = declared.Epoch, declared.Version
	f.Mark(m)
}

func elapse(d time.Duration) func(*filterCase) {
	return func(s *filterCase) { s.after(func(*fleet.Fleet, *fleet.Node) { time.Sleep(d) }) }
}

func missACKs(times int) func(*filterCase) {
	return func(s *filterCase) {
		s.after(func(f *fleet.Fleet, n *fleet.Node) {
			for range times {
				n.RecordMissedACK(f.Now())
			}
		})
	}
}

// rejecting are conditions under which a node is rejected, with the reason. Any two can occur together.
var rejecting = []condition{
	// The node is incapable as it is registered.
	{"the source is not understood", core.ReasonSemanticLang, withNode(func(n *core.Node) { n.Semantic = core.NewLangSet("de", "fr") })},
	{"it does no semantic repair", core.ReasonSemanticLang, withNode(func(n *core.Node) { n.Types.Semantic = core.No })},
	{"the source is not recognised", core.ReasonASRLang, withNode(func(n *core.Node) { n.ASR = core.NewLangSet("fr") })},
	{"it does no recognition", core.ReasonASRLang, withNode(func(n *core.Node) { n.Types.ASR = core.No })},
	{"the pair is not translated", core.ReasonNMTPair, withNode(func(n *core.Node) {
		n.AnyPair, n.Pairs = false, []core.Direction{{Src: "de", Tgt: "en"}}
	})},
	{"it does no translation", core.ReasonNMTPair, withNode(func(n *core.Node) { n.Types.NMT = core.No })},
	{"the target is not spoken", core.ReasonTTSLang, withNode(func(n *core.Node) { n.TTS = nil })},
	{"it does no speech", core.ReasonTTSLang, withNode(func(n *core.Node) { n.Types.TTS = core.No })},
	{"it is another tenant's", core.ReasonTenant, withNode(func(n *core.Node) { n.Tenant = "other" })},
	{"it is in another region", core.ReasonRegion, both(withNode(func(n *core.Node) { n.Region = "us" }), withOptions(func(o *core.Options) { o.Region = "eu" }))},
	{"a model is missing", core.ReasonModelMissing, both(
		withNode(func(n *core.Node) { n.Models = []string{"small"} }),
		withOptions(func(o *core.Options) { o.RequiredModels = []string{"small", "large"} }))},
	{"a service is missing", core.ReasonServiceMissing, requireService("missing")},
	{"a feature is missing", core.ReasonFeatureMissing, withOptions(func(o *core.Options) { o.Features = []string{"tone"} })},

	// The node cannot take the job now.
	{"it is degraded", core.ReasonNotReady, withHealth(core.HealthDegraded)},
	{"it is draining", core.ReasonNotReady, withHealth(core.HealthDraining)},
	{"it is offline", core.ReasonNotReady, withHealth(core.HealthOffline)},
	{"it is drained", core.ReasonDrained, withNode(func(n *core.Node) { n.Drained = true })},
	{"its connection is lost", core.ReasonDisconnected, withNode(func(n *core.Node) { n.Disconnected = true })},
	{"its connection is lost and it is drained", core.ReasonDrained, withNode(func(n *core.Node) { n.Disconnected, n.Drained = true, true })},
	{"it is offline and its connection is lost", core.ReasonNotReady, withNode(func(n *core.Node) { n.Disconnected, n.Health = true, core.HealthOffline })},
	{"its last heartbeat is old", core.ReasonStale, elapse(15*time.Second + 1)},
	{"it cannot be reached", core.ReasonUnreachable, withNode(func(n *core.Node) { n.Callback = "" })},
	{"it has no slots", core.ReasonNoCapacity, withNode(func(n *core.Node) { n.MaxJobs = 0 })},
	{"it is ejected", core.ReasonEjected, withNode(limitedTo(0))},
	{"it has no slots and is ejected", core.ReasonNoCapacity, withNode(func(n *core.Node) {
		limitedTo(0)(n)
		n.MaxJobs = 0
	})},
	{"it had the job before", core.ReasonTried, func(s *filterCase) { s.query.Tried = []core.NodeID{"z", "a"} }},
	{"its CPU is over the limit", core.ReasonCPU, func(s *filterCase) { s.load.CPU = 0.9502 }},
	{"its GPU is over the limit", core.ReasonGPU, func(s *filterCase) { s.load.GPU = 0.9802 }},
	{"its memory is over the limit", core.ReasonMemory, func(s *filterCase) { s.load.Memory = 0.9502 }},
	{"its ASR is being downloaded", core.ReasonASRNotReady, declareServicesOfType("asr", core.ServiceDownloading, core.ServiceError)},
	{"its only ASR is marked", core.ReasonASRNotReady, both(declareServicesOfType("asr", core.ServiceReady), markService("asr-1", time.Hour))},
	{"its semantic repair is stopped", core.ReasonSemanticNotReady, declareServicesOfType("semantic", core.ServiceStopped)},
	{"its NMT is broken", core.ReasonNMTNotReady, declareServicesOfType("NMT", core.ServiceError)},
	{"its TTS is being verified", core.ReasonTTSNotReady, declareServicesOfType("tts", core.ServiceVerifying)},
	{"a service is being downloaded", core.ReasonServiceNotReady, requireAndDeclare("downloading", core.ServiceDownloading)},
	{"a service is being verified", core.ReasonServiceNotReady, requireAndDeclare("verifying", core.ServiceVerifying)},
	{"a service is being installed", core.ReasonServiceNotReady, requireAndDeclare("installing", core.ServiceInstalling)},
	{"a service is stopped", core.ReasonServiceNotReady, requireAndDeclare("stopped", core.ServiceStopped)},
	{"a service is broken", core.ReasonServiceNotReady, requireAndDeclare("broken", core.ServiceError, core.ServiceStopped)},
	{"the only ready version of a service is marked", core.ReasonMarked, both(requireAndDeclare("s", core.ServiceError, core.ServiceReady), markVersion("s", "2"))},
	{"all versions of a service are marked", core.ReasonMarked, both(requireAndDeclare("s", core.ServiceReady, core.ServiceReady), markService("s", time.Hour))},
	{"a service is marked", core.ReasonMarked, both(requireAndDeclare("marked", core.ServiceReady), markService("marked", time.Hour))},

	// Soft reasons.
	{"it is set aside", core.ReasonSetAside, missACKs(12)},
	{"it had the session's last utterance", core.ReasonSpread, func(s *filterCase) { s.query.LastNode = "a" }},
}

// accepting are similar conditions under which a node passes.
var accepting = []condition{
	{name: "nothing at all", apply: func(*filterCase) {}},
	{name: "its tenant's own job", apply: both(withNode(func(n *core.Node) { n.Tenant = "acme" }), func(s *filterCase) { s.query.Tenant = "acme" })},
	{name: "a tenant's job on a node of no tenant", apply: func(s *filterCase) { s.query.Tenant = "acme" }},
	{name: "the region that is required", apply: both(withNode(func(n *core.Node) { n.Region = "eu" }), withOptions(func(o *core.Options) { o.Region = "eu" }))},
	{name: "a region that is not required", apply: withNode(func(n *core.Node) { n.Region = "eu" })},
	{name: "all the models", apply: both(
		withNode(func(n *core.Node) { n.Models = []string{"small", "large", "other"} }),
		withOptions(func(o *core.Options) { o.RequiredModels = []string{"large", "small"} }))},
	{name: "a tenant's job with requirements on a node of no tenant", apply: both(requireAndDeclareModel, func(s *filterCase) { s.query.Tenant = "acme" })},
	{name: "a job with requirements and no region, on a node with a region", apply: both(requireAndDeclareModel, withNode(func(n *core.Node) { n.Region = "eu" }))},
	{name: "all the features", apply: both(
		withNode(func(n *core.Node) { n.Features, n.Types.Tone = []string{"glossary"}, core.Yes }),
		withOptions(func(o *core.Options) { o.Features = []string{"tone", "glossary"} }))},
	{name: "a service that is ready", apply: requireAndDeclare("asr", core.ServiceReady)},
	{name: "a service with one version ready", apply: requireAndDeclare("asr", core.ServiceError, core.ServiceReady, core.ServiceDownloading)},
	{name: "a broken service that is not required", apply: declareService("asr", core.ServiceError)},
	{name: "a mark on a service that is not required", apply: both(requireAndDeclare("asr", core.ServiceReady), markService("nmt", time.Hour))},
	{name: "a mark on one of two ready versions", apply: both(requireAndDeclare("asr", core.ServiceReady, core.ServiceReady), markVersion("asr", "1"))},
	{name: "a mark on a version it does not have", apply: both(requireAndDeclare("asr", core.ServiceReady), markVersion("asr", "9"))},
	{name: "a mark that has expired", apply: both(requireAndDeclare("asr", core.ServiceReady), both(markService("asr", time.Second), elapse(time.Second)))},
	{name: "one service of each type ready", apply: both(
		both(declareServicesOfType("asr", core.ServiceError, core.ServiceReady), declareServicesOfType("semantic", core.ServiceReady)),
		both(declareServicesOfType("nmt", core.ServiceReady, core.ServiceDownloading), declareServicesOfType("tts", core.ServiceReady)))},
	{name: "TTS that is not ready and not required", apply: both(declareServicesOfType("tts", core.ServiceError), func(s *filterCase) { s.tts = false })},
	{name: "a broken service of a type that no job needs", apply: declareServicesOfType("tone", core.ServiceError)},
	{name: "a broken service of no type", apply: declareServicesOfType("", core.ServiceError)},
	{name: "a mark on one of two services of a type", apply: both(declareServicesOfType("asr", core.ServiceReady, core.ServiceReady), markService("asr-1", time.Hour))},
	{name: "a mark on a service it never declared", apply: both(declareServicesOfType("asr", core.ServiceReady), markService("asr-9", time.Hour))},
	{name: "an expired mark on its only service of a type", apply: both(declareServicesOfType("asr", core.ServiceReady), both(markService("asr-1", time.Second), elapse(time.Second)))},
	{name: "no TTS, and none required", apply: both(withNode(func(n *core.Node) { n.TTS = nil }), func(s *filterCase) { s.tts = false })},
	{name: "a heartbeat just within the time", apply: elapse(15 * time.Second)},
	{name: "one slot", apply: withNode(func(n *core.Node) { n.MaxJobs = 1 })},
	{name: "one slot of four", apply: withNode(limitedTo(1))},
	{name: "a limit above its slots", apply: withNode(limitedTo(9))},
	{name: "an ejection that is over", apply: withNode(func(n *core.Node) {
		n.Admission = core.Admission{Reason: core.AdmissionSilent, Times: 3}
	})},
	{name: "other nodes had the job before", apply: func(s *filterCase) { s.query.Tried = []core.NodeID{"b", "c"} }},
	{name: "another node had the last utterance", apply: func(s *filterCase) { s.query.LastNode = "b" }},
	{name: "loads exactly at their limits", apply: func(s *filterCase) { s.load = core.Load{CPU: 0.95, GPU: 0.98, Memory: 0.95} }},
	{name: "no load at all", apply: func(s *filterCase) { s.load = core.Load{} }},
	{name: "unknown loads under the strictest limits", apply: func(s *filterCase) { s.policy.CPUMax, s.policy.GPUMax, s.policy.MemoryMax = 0, 0, 0 }},
	{name: "full loads under no limits", apply: func(s *filterCase) {
		s.load = core.Load{CPU: 1, GPU: 1, Memory: 1}
		s.policy.CPUMax, s.policy.GPUMax, s.policy.MemoryMax = 1, 1, 1
	}},
	{name: "a missed ACK that is long past", apply: both(missACKs(1), elapse(5*time.Second))},
	{name: "missed ACKs before a later ACK", apply: both(missACKs(3), func(s *filterCase) {
		s.after(func(_ *fleet.Fleet, n *fleet.Node) { n.ClearMissedACKs() })
	})},
}

func TestEveryFilterReturnsItsReason(t *testing.T) {
	t.Parallel()
	for _, c := range rejecting {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := newFilterCase(c.apply).evaluate(t); got != c.reason {
				t.Errorf("reason %q, want %q", got, c.reason)
			}
		})
	}
}

func TestNodesThatPassAllFilters(t *testing.T) {
	t.Parallel()
	for _, c := range accepting {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := newFilterCase(c.apply).evaluate(t); got != core.ReasonNone {
				t.Errorf("reason %q, want none", got)
			}
		})
	}
}

// severity orders reasons: incapable before temporary before soft.
func severity(r core.Reason) int {
	switch {
	case r.Incapable():
		return 0
	case r.Soft():
		return 2
	}
	return 1
}

// Of two reasons the more severe is returned: an incapable node is not reported as full or stale, and one
// that cannot take the job now is not tried as if only a soft reason rejected it.
func TestMoreSevereReasonIsReturned(t *testing.T) {
	t.Parallel()
	for _, a := range rejecting {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			for _, b := range rejecting {
				// In either order, in case one undoes what the other did.
				got := newFilterCase(a.apply, b.apply).evaluate(t)
				want := []core.Reason{a.reason, b.reason}
				switch {
				case severity(a.reason) < severity(b.reason):
					want = want[:1]
				case severity(a.reason) > severity(b.reason):
					want = want[1:]
				}
				if got != want[0] && got != want[len(want)-1] {
					t.Errorf("%s and %s: reason %q, want %q", a.name, b.name, got, want)
				}
			}
		})
	}
}
