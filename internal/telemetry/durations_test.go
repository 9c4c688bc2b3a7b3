package telemetry

import (
	"encoding/json"
	"math"
	"testing"
	"time"
)

// TestDurationBuckets checks that the buckets follow each other without a gap and that every duration is in the bucket whose bounds
// contain it.
func TestDurationBuckets(t *testing.T) {
	t.Parallel()
	last := len(Durations{}) - 1
	for ms := range 200_000 {
		bucket := durationBucket(time.Duration(ms) * time.Millisecond)
		if low, high := durationBound(bucket), durationBound(bucket+1); float64(ms) < low || float64(ms) >= high && bucket != last {
			t.Fatalf("%d ms is in bucket %d, from %v to %v", ms, bucket, low, high)
		}
	}
	for d, want := range map[time.Duration]int{-time.Second: 0, 999 * time.Microsecond: 0, math.MaxInt64: last} {
		if got := durationBucket(d); got != want {
			t.Errorf("%v is in bucket %d, want %d", d, got, want)
		}
	}
}

// TestQuantilesOfDurations compares quantiles with those of the durations themselves.
func TestQuantilesOfDurations(t *testing.T) {
	t.Parallel()
	for _, largest := range []int{0, 1, 3, 7, 40, 900, 30_000} {
		var d Durations
		for ms := range largest + 1 {
			d.Observe(time.Duration(ms) * time.Millisecond)
		}
		for _, q := range []float64{0.5, 0.95, 0.99, 1} {
			want := q * float64(largest)
			if got := float64(d.QuantileMS(q)); math.Abs(got-want) > 1+want/4 {
				t.Errorf("0 to %d ms: the quantile %v is %v, want about %v", largest, q, got, want)
			}
		}
	}
	var d Durations
	if got := d.QuantileMS(0.5); got != 0 {
		t.Errorf("the median of nothing is %d", got)
	}
	d.Observe(0)
	d.Observe(time.Hour)
	if p50, p99 := d.QuantileMS(0.5), d.QuantileMS(0.99); p50 != 0 || p99 < 114_688 || p99 > 131_072 {
		t.Errorf("of 0 and an hour: %d and %d, want 0 and the last bucket", p50, p99)
	}
}

// TestEncodedDurations checks the encoding, and that whatever another version has written is read as something.
func TestEncodedDurations(t *testing.T) {
	t.Parallel()
	var d Durations
	d.Observe(2 * time.Millisecond)
	d.Observe(2 * time.Millisecond)
	d.Observe(time.Minute)
	body, err := json.Marshal(d)
	if err != nil || string(body) != "[2,2,59,1]" {
		t.Fatalf("encoded as %s, %v", body, err)
	}
	var got Durations
	if err := json.Unmarshal(body, &got); err != nil || got != d {
		t.Errorf("decoded as %v, %v, want %v", got, err, d)
	}
	for body, want := range map[string]Durations{
		`null`: {}, `"x"`: {}, `{"a":1}`: {}, `[1]`: {}, `[-1,5]`: {}, `[64,5,1e3,2]`: {}, `[1,99999999999999999]`: {},
		`[99,1,3,7]`: {3: 7}, `[3,7,4]`: {3: 7},
	} {
		got := Durations{5: 5}
		if err := json.Unmarshal([]byte(body), &got); err != nil || body != "null" && got != want {
			t.Errorf("%s: decoded as %v, %v, want %v", body, got, err, want)
		}
	}
	if body, err := json.Marshal(&LagDurations{Node: Durations{1: 2}}); err != nil || string(body) != `{"node":[1,2]}` {
		t.Errorf("encoded as %s, %v", body, err)
	}
}

// TestLags checks that every part of a lag is counted, and that this allocates nothing.
func TestLags(t *testing.T) { // not parallel: it counts allocations
	m := New()
	lag := Lag{Segmentation: time.Millisecond, Wait: 2 * time.Millisecond, Dispatch: 3 * time.Millisecond, Node: time.Second, Return: 0}
	before := m.Lags()
	m.ObserveLag(lag)
	now := m.Lags()
	var diff LagDurations
	diff.AddSince(&now, &before)
	want := LagDurations{Segmentation: Durations{1: 1}, Wait: Durations{2: 1}, Dispatch: Durations{3: 1}, Return: Durations{0: 1}}
	want.Node.Observe(time.Second)
	want.Total.Observe(1006 * time.Millisecond)
	if diff != want {
		t.Errorf("counted %+v, want %+v", diff, want)
	}
	if n := testing.AllocsPerRun(100, func() { m.ObserveLag(lag) }); n != 0 {
		t.Errorf("a lag costs %v allocations", n)
	}
}
