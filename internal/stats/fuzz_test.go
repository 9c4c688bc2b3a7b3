package stats

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/health"
	"github.com/lingua-scheduler/lingua/wire"
)

// FuzzStoredStatistics: nothing that is stored of the statistics makes an instance that reads it panic.
func FuzzStoredStatistics(f *testing.F) {
	for _, seed := range []string{
		`{"seq":1,"total":{"directions":{"en→zh":1}},"health":{"nodes":{"n":{"ended":-7}}},"waits":{"en→zh":null},"waiting":{"en→zh":-7}}`,
		`{"index":1,"tally":null}`, `{"i-1":{"seq":1}}`, `{"index":28333333,"points":[{}]}`, `null`, `{}`, `[]`, `{"series_point":{"at_ms":-7},"demand":{"x":{}}}`, "",
	} {
		f.Add([]byte(seed))
	}
	now := time.UnixMilli(1_700_000_000_000)
	f.Fuzz(func(_ *testing.T, body []byte) {
		h := decodeHistory(map[string][]byte{countedPart: body, uncoveredPart: body, "m1": body, "q1": body, seriesPart + "1": body})
		step := newStepCounts()
		var p published
		if json.Unmarshal(body, &p) == nil {
			var seen health.Report
			seen.Merge(p.Health)
			h.add("i-1", p.counted, now, step)
			addDurations(step.waits, p.Waits)
		}
		_ = h.sum(quarters, quarters.length, now)
		h.addPoint(wire.ClusterPoint{AtMS: now.UnixMilli()})
		_, _ = h.parts(now)
		_ = decodeWatch(body)
	})
}
