package stats

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

var start = time.UnixMilli(1_700_000_000_000)

// ended is a job that ended after another number of others.
func ended(i int, change ...func(*core.Job)) *core.Job {
	at := start.Add(time.Duration(i) * time.Second)
	job := &core.Job{
		ID: core.JobID(fmt.Sprintf("job-%08d", i)), State: core.StateDone, Created: at, Updated: at.Add(time.Second), Deadline: at.Add(time.Minute),
		Spec: core.Spec{
			Request: core.RequestID(fmt.Sprint("r-", i)), Tenant: "acme", Session: "room", Direction: core.Direction{Src: "en", Tgt: "zh"},
			AudioRef: "https://audio.example/secret", Options: core.Options{Region: "eu"}, Pool: core.JobPool{ID: "gold", Bound: true},
		},
		Holder: core.Holder{Attempt: 1, Node: "n1"}, Result: []byte(`{"text_src":"what was said"}`),
		History: []core.Attempt{{Holder: core.Holder{Attempt: 1, Node: "n1"}, Started: at, Ended: at.Add(time.Second)}},
	}
	for _, fn := range change {
		fn(job)
	}
	return job
}

// kept is what is remembered of a job.
func kept(job *core.Job) *core.Job {
	k := *job
	k.Result, k.AudioRef = nil, ""
	return &k
}

func TestJobsAreFoundWithoutWhatWasSaid(t *testing.T) {
	t.Parallel()
	r := NewJobRing()
	for i := range 5 {
		r.AddJob(ended(i))
	}
	want := []*core.Job{kept(ended(4)), kept(ended(3)), kept(ended(2))}
	if diff := cmp.Diff(want, r.Search(&store.ListParams{Limit: 3})); diff != "" {
		t.Errorf("found (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(kept(ended(1)), r.Job("job-00000001")); diff != "" {
		t.Errorf("job (-want +got):\n%s", diff)
	}
	for _, id := range []core.JobID{"job-0000000", "job-000000011", "", "other"} {
		if job := r.Job(id); job != nil {
			t.Errorf("%q is %v, want none", id, job)
		}
	}
	for _, entry := range r.jobs.all() {
		if strings.Contains(entry, "said") || strings.Contains(entry, "audio") {
			t.Errorf("the entry %q has what was said", entry)
		}
	}
}

func TestSearchFilters(t *testing.T) {
	t.Parallel()
	r := NewJobRing()
	r.AddJob(ended(0))
	r.AddJob(ended(1, func(j *core.Job) { j.State, j.Reason = core.StateFailed, core.ReasonMaxRetry }))
	r.AddJob(ended(2, func(j *core.Job) { j.Tenant, j.Session = "beta", "other" }))
	r.AddJob(ended(3, func(j *core.Job) {
		j.Direction = core.Direction{Src: "zh", Tgt: "en"}
		j.Options.Region = "us"
		j.Node = "n2" // after it was retried
		j.History[0].Reason = core.ReasonNodeLost
		j.History = append(j.History, core.Attempt{Holder: core.Holder{Attempt: 2, Node: "n2"}})
	}))
	acme := core.TenantID("acme")
	for name, tc := range map[string]struct {
		p    store.ListParams
		want []int
	}{
		"all":                {store.ListParams{}, []int{3, 2, 1, 0}},
		"state":              {store.ListParams{State: core.StateFailed}, []int{1}},
		"reason":             {store.ListParams{Reason: core.ReasonMaxRetry}, []int{1}},
		"reason of attempts": {store.ListParams{Reason: core.ReasonNodeLost}, []int{3}},
		"tenant":             {store.ListParams{Tenant: &acme}, []int{3, 1, 0}},
		"session":            {store.ListParams{Session: "other"}, []int{2}},
		"source":             {store.ListParams{Src: "zh"}, []int{3}},
		"target":             {store.ListParams{Tgt: "zh"}, []int{2, 1, 0}},
		"language":           {store.ListParams{Lang: "en"}, []int{3, 2, 1, 0}},
		"region":             {store.ListParams{Region: "us"}, []int{3}},
		"last node":          {store.ListParams{Node: "n2"}, []int{3}},
		"node of an attempt": {store.ListParams{Node: "n1"}, []int{3, 2, 1, 0}},
		"part of the id":     {store.ListParams{Search: "0000002"}, []int{2}},
		"no part of an id":   {store.ListParams{Search: "00000002-"}, nil},
		"since":              {store.ListParams{Since: start.Add(2 * time.Second)}, []int{3, 2}},
		"until":              {store.ListParams{Until: start.Add(2 * time.Second)}, []int{1, 0}},
		"after":              {store.ListParams{After: store.PositionOf(ended(2)), Limit: 1}, []int{1}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []int
			for _, job := range r.Search(&tc.p) {
				got = append(got, int(job.Created.Sub(start)/time.Second))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("found (-want +got):\n%s", diff)
			}
		})
	}
}

// TestTheOldestAreDropped checks the bound, and that a job that ended twice is found once, as it ended last.
func TestTheOldestAreDropped(t *testing.T) {
	t.Parallel()
	r := NewJobRing()
	for i := range Size + 10 {
		r.AddJob(ended(i))
		r.AddDecision(&core.Decision{Job: ended(i).ID, Attempt: 1, Node: "n1"})
	}
	r.AddJob(ended(Size, func(j *core.Job) { j.State = core.StateFailed }))
	found := r.Search(&store.ListParams{})
	if len(found) != Size-1 { // one place has a repeated job
		t.Fatalf("%d jobs are found, want %d", len(found), Size-1)
	}
	if oldest := found[len(found)-1].ID; oldest != ended(11).ID {
		t.Errorf("the oldest is %s, want %s", oldest, ended(11).ID)
	}
	if since, oldest := r.Since(), ended(11).Updated; !since.Equal(oldest) {
		t.Errorf("all are remembered since %s, want %s", since, oldest)
	}
	if empty := NewJobRing(); time.Since(empty.Since()) > time.Minute {
		t.Errorf("a new ring remembers all since %s", empty.Since())
	}
	if job := r.Job(ended(Size).ID); job == nil || job.State != core.StateFailed {
		t.Errorf("%v, want the job as it ended last", job)
	}
	if got := r.Decisions(ended(9).ID); got != nil {
		t.Errorf("%v, want the decision to be dropped", got)
	}
	if got := r.Decisions(ended(10).ID); len(got) != 1 {
		t.Errorf("%v, want one decision", got)
	}
}

func TestDecisions(t *testing.T) {
	t.Parallel()
	r := NewJobRing()
	many := make([]core.Candidate, 0, 20)
	for i := range 20 {
		many = append(many, core.Candidate{Node: core.NodeID(fmt.Sprint("n", i)), Reason: []core.Reason{core.ReasonFull, core.ReasonDrained, core.ReasonNone}[i%3]})
	}
	first := core.Decision{Job: "j", Tenant: "acme", Attempt: 1, AtMS: 1_700_000_000_000, Node: "n3", Pool: "gold", Candidates: many[:3]}
	r.AddDecision(&core.Decision{Job: "j", Tenant: "acme", Attempt: 2, AtMS: 1_700_000_000_001, Node: "n5", Candidates: many, Others: map[core.Reason]int{core.ReasonStale: 2, core.ReasonFull: 1}})
	r.AddDecision(&first)
	r.AddDecision(&core.Decision{Job: "j2", Attempt: 1})
	second := core.Decision{
		Job: "j", Tenant: "acme", Attempt: 2, AtMS: 1_700_000_000_001, Node: "n5", Candidates: many[:core.MaxCandidates],
		Others: map[core.Reason]int{core.ReasonStale: 2, core.ReasonFull: 1 + 4, core.ReasonDrained: 4},
	}
	if diff := cmp.Diff([]core.Decision{first, second}, r.Decisions("j")); diff != "" {
		t.Errorf("decisions (-want +got):\n%s", diff)
	}
}

// TestEntriesAreBounded checks that an entry has a bounded size, whatever it is made of, and is cut at the start of a character.
func TestEntriesAreBounded(t *testing.T) {
	t.Parallel()
	huge := strings.Repeat("é", 5000)
	job := &core.Job{
		ID: core.JobID(huge), Detail: huge, Reason: core.Reason(huge), Holder: core.Holder{Node: core.NodeID(huge)},
		Spec: core.Spec{Tenant: core.TenantID(huge), Session: core.SessionID(huge), Request: core.RequestID(huge), Direction: core.Direction{Src: core.Lang(huge), Tgt: core.Lang(huge)}},
	}
	for range core.MaxHistory {
		job.History = append(job.History, core.Attempt{Holder: core.Holder{Node: core.NodeID(huge)}, Reason: core.Reason(huge)})
	}
	const limit = (10 + 2*maxAttempts) * (maxText + 20)
	if size := len(encodeJob(job)); size > limit {
		t.Errorf("a job has %d bytes, want at most %d", size, limit)
	}
	var decoded core.Job
	if !decodeJob(encodeJob(job), &decoded) || decoded.Detail != strings.Repeat("é", maxDetail/2) || len(decoded.History) != maxAttempts {
		t.Errorf("decoded %d bytes of detail and %d attempts", len(decoded.Detail), len(decoded.History))
	}
}

// TestCodec checks that every job and decision is decoded as it was encoded, and that no damaged entry is decoded or panics.
func TestCodec(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOfN(rapid.RuneFrom([]rune("abcXYZ-._é\x00")), 0, 40, 100)
		at := rapid.Custom(func(t *rapid.T) time.Time {
			if ms := rapid.Int64Range(-1_000_000, 4_000_000_000_000).Draw(t, "ms"); ms != 0 {
				return time.UnixMilli(ms)
			}
			return time.Time{}
		})
		job := &core.Job{
			ID: core.JobID(text.Draw(t, "id")), Detail: text.Draw(t, "detail"), Reason: core.Reason(text.Draw(t, "reason")), State: core.StateFailed,
			Spec:    core.Spec{Tenant: core.TenantID(text.Draw(t, "tenant")), Session: core.SessionID(text.Draw(t, "session")), TestJob: rapid.Bool().Draw(t, "probe"), Pool: core.JobPool{ID: "p", Bound: rapid.Bool().Draw(t, "bound")}},
			Created: at.Draw(t, "created"), Updated: at.Draw(t, "updated"), Deadline: at.Draw(t, "deadline"),
			Holder: core.Holder{Attempt: rapid.IntRange(0, 1<<31).Draw(t, "attempt"), Node: core.NodeID(text.Draw(t, "node"))},
		}
		for range rapid.IntRange(0, maxAttempts).Draw(t, "attempts") {
			job.History = append(job.History, core.Attempt{Holder: core.Holder{Attempt: 3, Node: core.NodeID(text.Draw(t, "had"))}, Started: at.Draw(t, "started"), Reason: "R"})
		}
		entry := encodeJob(job)
		var got core.Job
		if !decodeJob(entry, &got) {
			t.Fatal("an entry cannot be decoded")
		}
		if diff := cmp.Diff(job, &got, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("decoded (-want +got):\n%s", diff)
		}
		cut := rapid.IntRange(0, len(entry)-1).Draw(t, "cut")
		if decodeJob(entry[:cut], new(core.Job)) {
			t.Fatalf("an entry that was cut at %d of %d is decoded", cut, len(entry))
		}
		damaged := []byte(entry)
		damaged[rapid.IntRange(0, len(entry)-1).Draw(t, "at")] ^= byte(rapid.IntRange(1, 255).Draw(t, "bits"))
		decodeJob(string(damaged), new(core.Job)) // it may not panic
		decodeDecision(string(damaged), new(core.Decision))
	})
}

// TestConcurrentUse adds and searches at the same time.
func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	r := NewJobRing()
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			for i := range 300 {
				job := ended(g*1000 + i)
				r.AddJob(job)
				r.AddDecision(&core.Decision{Job: job.ID, Attempt: 1})
				if i%50 == 0 {
					found := r.Search(&store.ListParams{})
					if !slices.ContainsFunc(found, func(j *core.Job) bool { return j.ID == job.ID }) || len(r.Decisions(job.ID)) != 1 {
						t.Errorf("%s is not found", job.ID)
					}
				}
			}
		})
	}
	all.Wait()
}

// TestNilRingRemembersNothing checks that a ring is optional.
func TestNilRingRemembersNothing(t *testing.T) {
	t.Parallel()
	var r *JobRing
	r.AddJob(ended(1))
	r.AddDecision(&core.Decision{})
	if r.Search(&store.ListParams{}) != nil || r.Job("x") != nil || r.Decisions("x") != nil {
		t.Error("it remembers something")
	}
}

// typicalDecision has the candidates of an ordinary selection: two drawn, one chosen.
func typicalDecision(job *core.Job) *core.Decision {
	return &core.Decision{
		Job: job.ID, Tenant: job.Tenant, Attempt: 1, AtMS: start.UnixMilli(), Node: "gpu-node-0001",
		Candidates: []core.Candidate{{Node: "gpu-node-0001"}, {Node: "gpu-node-0002"}},
	}
}

// TestMemory prints what a full ring takes, of ordinary jobs and of the largest there can be.
func TestMemory(t *testing.T) { //nolint:paralleltest // it measures the heap of the process
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	r := NewJobRing()
	for i := range Size {
		job := ended(i)
		r.AddJob(job)
		r.AddDecision(typicalDecision(job))
	}
	took := heap() - before
	runtime.KeepAlive(r)
	t.Logf("%d jobs and their decisions take %.1f MiB, %d bytes each", Size, float64(took)/(1<<20), took/Size)
	if took > 12<<20 {
		t.Errorf("a full ring takes %d bytes", took)
	}
}

func BenchmarkAdd(b *testing.B) {
	r, job := NewJobRing(), ended(1)
	decision := typicalDecision(job)
	b.Run("job", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			r.AddJob(job)
		}
	})
	b.Run("decision", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			r.AddDecision(decision)
		}
	})
}

// BenchmarkSearch searches a full ring for a job that is not there, and for all.
func BenchmarkSearch(b *testing.B) {
	r := NewJobRing()
	for i := range Size {
		r.AddJob(ended(i))
		r.AddDecision(typicalDecision(ended(i)))
	}
	b.Run("none", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			r.Search(&store.ListParams{Reason: "none", Limit: 100})
		}
	})
	b.Run("all", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			r.Search(&store.ListParams{Limit: 100})
		}
	})
	b.Run("by id", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			r.Decisions("job-none")
		}
	})
}
