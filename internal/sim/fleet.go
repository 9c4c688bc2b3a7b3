package sim

import (
	"math/rand/v2"
	"time"

	"github.com/lingua-scheduler/lingua/wire"
)

// Figure is a node of the demo with what a person should know of it.
type Figure struct {
	Options NodeOptions
	Fault   string // what is wrong with it, in words
}

// Cast makes the demo's fleet: different languages, capacities, speeds and faults.
func Cast() []Figure {
	europe, asia := []string{"en", "de", "fr", "es"}, []string{"en", "zh", "ja", "ko"}
	world := []string{"en", "de", "fr", "es", "zh", "ja"}
	return []Figure{
		{Options: figure("oslo", europe, 4, 300*time.Millisecond)},
		{Options: figure("paris", europe, 4, 350*time.Millisecond)},
		{Options: figure("madrid", europe, 2, 250*time.Millisecond)},
		{Options: figure("tokyo", asia, 4, 300*time.Millisecond)},
		{Options: figure("seoul", asia, 4, 400*time.Millisecond)},
		{Options: figure("taipei", asia, 2, 250*time.Millisecond)},
		{Options: figure("geneva", world, 8, 500*time.Millisecond)},
		{Options: figure("nairobi", world, 4, 900*time.Millisecond), Fault: "slow"},
		{Options: with(figure("lima", world, 4, 300*time.Millisecond), func(o *NodeOptions) { o.Fail = 0.2 }), Fault: "fails 1 in 5"},
		{Options: with(figure("cairo", world, 2, 300*time.Millisecond), func(o *NodeOptions) { o.Silent = 0.3 }), Fault: "forgets 3 in 10"},
		{Options: with(figure("delhi", asia, 4, 350*time.Millisecond), func(o *NodeOptions) { o.Busy = 0.2 }), Fault: "refuses 1 in 5"},
		{Options: with(figure("quito", europe, 2, 300*time.Millisecond), func(o *NodeOptions) { o.Quiet = true }), Fault: "never lists"},
	}
}

func figure(id string, langs []string, slots int, mean time.Duration) NodeOptions {
	return NodeOptions{
		ID: id,
		Declaration: wire.Declaration{
			SemanticLangs: langs, ASRLangs: langs, TTSLangs: langs, MaxConcurrentJobs: &slots,
		},
		Work: Around(mean), Beat: time.Second, Gate: true,
	}
}

func with(o NodeOptions, change func(*NodeOptions)) NodeOptions {
	change(&o)
	return o
}

// Around draws durations with the given mean: never less than a third of it, with a tail.
func Around(mean time.Duration) func() time.Duration {
	return func() time.Duration {
		return mean/3 + time.Duration(rand.ExpFloat64()*float64(mean)*2/3)
	}
}

// Pairs are the languages in which the demo's conversations are held.
var Pairs = [][2]string{{"en", "de"}, {"en", "zh"}, {"fr", "es"}, {"ja", "en"}, {"de", "fr"}, {"ko", "en"}, {"zh", "ja"}, {"es", "en"}}
