package drill

import "testing"

func TestDeadLetters(t *testing.T) {
	t.Parallel()
	marks := []string{poison + "1", poison + "10"}
	in := func(texts ...string) (list []letter) {
		for _, text := range texts {
			list = append(list, letter{key: "dlq", text: text})
		}
		return list
	}
	for name, c := range map[string]struct {
		letters []letter
		wrong   int
	}{
		"exactly the poison": {in("[drill "+poison+"10 why unreadable]", `[body {"drill":"`+poison+`1"}]`), 0},
		"one is missing":     {in("[drill " + poison + "10]"), 1},
		"one is there twice": {in("[drill "+poison+"10]", "[drill "+poison+"1]", "[drill "+poison+"1]"), 1},
		"one was no poison":  {in("[drill "+poison+"10]", "[drill "+poison+"1]", "[drill job_assign]"), 1},
	} {
		if got := wrongLetters(c.letters, marks); len(got) != c.wrong {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestKeysOfTheLiving(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]bool{
		prefix + ":v1:incarnation":                     true,
		prefix + ":v1:nodes:changes":                   true,
		prefix + ":schedulers:all":                     true,
		prefix + ":schedulers:presence:{instance:i-0}": true,
		prefix + ":schedulers:presence:{instance:i-9}": false,
		prefix + ":streams:{instance:i-0}:inbox":       true,
		prefix + ":streams:{instance:i-9}:inbox":       false,
		prefix + ":streams:{instance:i-0}:dlq":         false,
		prefix + ":v1:nodes:{node:n}:leases":           false,
		prefix + ":nodes:owner:{node:n}":               false,
		prefix + ":v1:sessions:{session:/s}:i:out":     false,
		prefix + ":v1:locks:{lock:silent:n}:fence":     false,
		prefix + ":v1:nodes:last_seen:3":               false,
		"other:v1:incarnation":                         false,
	} {
		if got := ofTheLiving(key, []string{"i-0", "i-1"}, false); got != want {
			t.Errorf("%s: %v, want %v", key, got, want)
		}
	}
	if !ofTheLiving(prefix+":streams:{instance:i-9}:dlq", nil, true) {
		t.Error("the poison has no place")
	}
}

func TestGrowth(t *testing.T) {
	t.Parallel()
	rows := func(size func(n int) float64) *watch {
		w := &watch{on: true}
		for n := range 20 {
			w.rows = append(w.rows, row{values: map[string]float64{"go_goroutines": size(n)}})
		}
		return w
	}
	for name, c := range map[string]struct {
		w    *watch
		want int
	}{
		"steady":                    {rows(func(int) float64 { return 300 }), 0},
		"warming up":                {rows(func(n int) float64 { return float64(min(300, 100*n)) }), 0},
		"up and down":               {rows(func(n int) float64 { return float64(300 + 200*(n%2)) }), 0},
		"growing":                   {rows(func(n int) float64 { return float64(300 + 100*n) }), 1},
		"one too many for a moment": {&watch{rows: []row{{}, {over: true}, {}}}, 0},
		"one too many":              {&watch{rows: []row{{}, {over: true}, {over: true}}}, 1},
		"too few to say":            {&watch{rows: rows(func(n int) float64 { return float64(1000 * n) }).rows[:5]}, 0},
	} {
		if got := c.w.growth(); len(got) != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
