package drill

import (
	"slices"
	"testing"
	"time"
)

// mutant is a scheduler that breaks a promise, and the drill that must notice.
type mutant struct {
	edits []edit
	drill drill
	want  string // what is found broken
}

const (
	scripts = "internal/store/redisstore/scripts/"
	tooLate = "if now > tonumber(ARGV[1]) and ARGV[1] ~= '0' then return { now } end"
)

var mutants = map[string]mutant{
	"whoever had a session goes on writing its state": {
		edits: []edit{{scripts + "save.lua", "if not held then return { now, 0 } end", ""}},
		drill: drill{kept: usually, faults: []fault{stopped(presenceTTL)}}, want: superseded,
	},
	"nothing comes too late": {
		edits: []edit{
			{scripts + "lib.lua", "return limit > 0 and now > limit", "return false"},
			{scripts + "reserve.lua", tooLate, ""}, {scripts + "commit.lua", tooLate, ""}, {scripts + "replace.lua", tooLate, ""},
		},
		drill: drill{kept: usually, faults: []fault{delayed(presenceTTL)}}, want: overdue,
	},
	"nobody takes on the jobs of an instance that is gone": {
		edits: []edit{{"internal/dispatch/bereaved.go", "range slices.Chunk(ids, takeoverBatch) {", "range slices.Chunk(ids[:0], takeoverBatch) {"}},
		drill: drill{kept: briefly, faults: []fault{killed(4 * time.Second)}}, want: slow,
	},
}

// TestTheDrillsFind: a scheduler that is broken does not pass. What is broken shows in a drill only if somebody does the
// wrong thing at the wrong moment, so there are a few tries.
func TestTheDrillsFind(t *testing.T) {
	if *drillTopology != "standalone" {
		t.Skip("what drills find does not depend on " + *drillTopology + ", and one of these needs a link to hold back")
	}
	const tries = 5
	for name, m := range mutants {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			binary, err := mutate(t.Name()[len("TestTheDrillsFind/"):], m.edits...)
			if err != nil {
				t.Fatal(err)
			}
			for n := range tries {
				broken := m.drill.practise(t, binary).broken
				if slices.ContainsFunc(broken, func(v violation) bool { return v.kind == m.want }) {
					t.Logf("found in try %d: %s", n+1, m.want)
					return
				}
				t.Logf("try %d of %d found %v", n+1, tries, broken)
			}
			t.Errorf("%s was not found", m.want)
		})
	}
}
