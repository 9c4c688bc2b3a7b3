package drill

import (
	"flag"
	"slices"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/test/clustertest"
)

var drillWaitingMutants = flag.Bool("drill-waiting-mutants", false, "whether TestWaitingMutantsAreDetected runs, which takes many minutes")

const (
	waitingCode = "internal/waiting/*.go"
	queueScript = "internal/store/redisstore/scripts/lib_wait.lua"
)

// waitingMutant is a change of the source that breaks a guarantee of waiting requests.
type waitingMutant struct {
	edits  []edit
	faults []fault
	want   []string // one of these kinds of violations
}

var waitingMutants = map[string]waitingMutant{
	"no-sweep": {
		edits:  []edit{{waitingCode, `k\.probe\(ctx, chunk, kind\)`, "_, _ = chunk, kind", 1}},
		faults: []fault{pauseInstance(2500 * time.Millisecond), killInstance(3 * time.Second)}, want: []string{emptySlot},
	},
	"offers-do-not-lapse": {
		edits:  []edit{{queueScript, `take_back\(parse_waiter\(name\), offer, now\)\n`, "offer = nil\n", 1}},
		faults: []fault{pauseInstance(500 * time.Millisecond), pauseInstance(1500 * time.Millisecond)}, want: []string{emptySlot, overtaken},
	},
	"waiters-of-dead-instances-stay": {
		edits:  []edit{{queueScript, `return not record or now >= read\('p'\)\.judge_after and now - record\.beat >= SILENCE_MS`, "return false", 1}},
		faults: []fault{killInstance(3 * time.Second)}, want: []string{deadWaiter},
	},
	"arrivals-take-slots-of-waiters": {
		edits: []edit{
			{"internal/dispatch/request.go", `c\.waits\(\) && claims\.Ahead\(&c\.Spec\) \{`, "false {", 1},
			{"internal/dispatch/selector.go", `if r\.claims\.Want\(m\.Node\) \{`, "if false {", 1},
			{"internal/dispatch/survey.go", `if !x\.request\.claims\.Want\(m\.Node\) \{`, "if true {", 1},
		},
		// A slot is free only for milliseconds before it is offered: it takes many requests until one of them comes in between.
		faults: slices.Repeat([]fault{pauseInstance(500 * time.Millisecond)}, 12), want: []string{overtaken},
	},
	"deadlines-are-ignored": {
		edits:  []edit{{"internal/server/jobs.go", `Until: now\.Add\(time\.Duration\(\*wait\) \* time\.Millisecond\)`, "Until: now.Add(time.Duration(*wait) * 2 * time.Millisecond)", 1}},
		faults: []fault{pauseInstance(500 * time.Millisecond)}, want: []string{lateAnswer, servedLate},
	},
	"placed-after-a-pause": {
		edits: []edit{
			{"internal/dispatch/request.go", `case c\.tries > 1 && time\.Now\(\)\.After\(c\.Wait\.Until\):`, "case false:", 1},
			{waitingCode, `case <-timer\.C:\n\tcase <-ctx\.Done\(\):\n\tcase <-t\.entry\.Stop:`, "case <-time.After(time.Until(until) + 3*time.Second):\n\tcase <-ctx.Done():\n\tcase <-t.entry.Stop:", 1},
			{"internal/store/redisstore/scripts/wait_offer.lua", `waiter\.deadline > now and`, "true and", 1},
			{queueScript, `or waiter\.deadline <= now or`, "or", 1},
		},
		faults: []fault{pauseInstance(2500 * time.Millisecond)}, want: []string{servedLate},
	},
	"lost-waiters-are-not-added-again": {
		edits:  []edit{{waitingCode, `case r\.Waiters < len\(own\):`, "case r.Waiters < 0:", 1}},
		faults: []fault{deleteQueue(), deleteQueue()}, want: []string{emptySlot, overtaken},
	},
	"lost-counts-are-not-noticed": {
		edits:  []edit{{"internal/store/redisstore/scripts/admit_member.lua", `ARGV\[9\] == '1' or redis\.call\('EXISTS', KEYS\[3\]\) == 1`, "false", 1}},
		faults: []fault{deleteCounts(4 * time.Second), deleteCounts(4 * time.Second)}, want: []string{overLimit},
	},
	"tenants-have-no-limits": {
		edits:  []edit{{"internal/tenants/jobs.go", `if j\.options\.Gate == nil \|\| !j\.options\.Gate\.LimitsJobs\(spec\.Tenant\) \{`, "if true {", 1}},
		faults: []fault{pauseInstance(500 * time.Millisecond)}, want: []string{overLimit},
	},
}

// TestWaitingMutantsAreDetected checks that a broken scheduler fails the drill with waiting requests. A violation depends on timing, so a mutant has
// several tries.
func TestWaitingMutantsAreDetected(t *testing.T) {
	if !*drillWaitingMutants {
		t.Skip("it runs with -drill-waiting-mutants")
	}
	if *drillTopology != clustertest.Standalone {
		t.Skip("the detection does not depend on the topology " + *drillTopology)
	}
	const tries = 4
	for name, m := range waitingMutants {
		t.Run(name, func(t *testing.T) {
			binary := mutant{edits: m.edits}.build(t, name)
			for n := range tries {
				violations := new(waitingDrill).run(t, binary, m.faults).violations
				if slices.ContainsFunc(violations, func(v violation) bool { return slices.Contains(m.want, v.kind) }) {
					t.Logf("detected in try %d", n+1)
					return
				}
				t.Logf("try %d of %d found %v", n+1, tries, violations)
			}
			t.Errorf("not detected: %q", m.want)
		})
	}
}

// TestWaitingMutantsMatchTheSource checks without a drill that all edits can be applied.
func TestWaitingMutantsMatchTheSource(t *testing.T) {
	t.Parallel()
	for name, m := range waitingMutants {
		if _, err := (mutant{edits: m.edits}).changedFiles(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
