package scale

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// plan says how large a model is, and what it does.
type plan struct {
	nodes, sessions int
	hour            time.Duration // how long a busy hour of the day is in the model; others are shorter
	seed            uint64
	maxWaiting      int
	window          int // slots in which the shares of tenants are compared
	surveyEvery     int // of so many surveys of the fleet one is made by package pick, and the others are drawn; see survey
}

// peakLoad is the share of all slots that the sessions need when all of them speak, and no tenant floods.
const peakLoad = 0.85

// waitLimit is sessions.wait_ms, in milliseconds.
const waitLimit = 10_000

// The day, in hours. A tenant floods from before the region fails until the middle of the failure.
const (
	day         = 24.0
	floodBegins = 9.0
	failure     = 10.0
	floodEnds   = 10.5
	returned    = 11.0
	failed      = 1    // the region that fails
	floodFactor = 10.0 // how much more a tenant sends while it floods
)

// phases are parts of the day that are reported separately, each until the next one begins. The pace is how much faster than in the busy hours
// the time passes in the others.
var phases = []struct {
	name  string
	begin float64
	pace  float64
}{
	{"night", 0, 6}, {"morning", 6, 3}, {"peak with a flooding tenant", floodBegins, 1}, {"the same, a region fails", failure, 1}, {"without the flood", floodEnds, 1},
	{"the region is back", returned, 1}, {"afternoon", 12, 6}, {"evening", 18, 6},
}

func phaseAt(hour float64) int {
	i := 0
	for i+1 < len(phases) && phases[i+1].begin <= hour {
		i++
	}
	return i
}

// hourAfter returns the hour of the day after so many milliseconds of the model; day, or more, when it is over.
func (p *plan) hourAfter(ms int64) float64 {
	left := float64(ms) / float64(p.hour.Milliseconds()) // in busy hours
	for i := range phases {
		end := day
		if i+1 < len(phases) {
			end = phases[i+1].begin
		}
		if took := (end - phases[i].begin) / phases[i].pace; left >= took && i+1 < len(phases) {
			left -= took
			continue
		}
		return phases[i].begin + left*phases[i].pace
	}
	return day
}

// activity has, by hour, the share of the sessions that speak.
var activity = [][2]float64{{0, 0.35}, {4, 0.25}, {6, 0.4}, {9, 1}, {11, 1}, {13, 0.7}, {15, 0.8}, {18, 0.6}, {21, 0.5}, {24, 0.35}}

// activeAt returns the share of the sessions that speak at an hour.
func activeAt(hour float64) float64 {
	for i := 1; i < len(activity); i++ {
		from, to := activity[i-1], activity[i]
		if hour <= to[0] {
			part := (hour - from[0]) / (to[0] - from[0])
			return from[1] + (to[1]-from[1])*(1-math.Cos(math.Pi*part))/2
		}
	}
	return activity[len(activity)-1][1]
}

// tenantPlan is a tenant and its part of the sessions.
type tenantPlan struct {
	id     core.TenantID
	weight int
	part   float64
	pool   core.PoolID // to which it is bound; empty: none
	floods bool
}

const boundPool core.PoolID = "glossary"

var tenantPlans = []tenantPlan{
	{id: "a", weight: 1, part: 0.14}, {id: "b", weight: 1, part: 0.14}, {id: "c", weight: 4, part: 0.59},
	{id: "flooding", weight: 1, part: 0.08, floods: true}, {id: "bound", weight: 1, part: 0.05, pool: boundPool},
}

// regionPlan is a region and its part of the nodes and of the sessions.
type regionPlan struct {
	name string
	part float64
}

var regionPlans = []regionPlan{{"eu", 0.35}, {"us", 0.25}, {"apac", 0.25}, {"latam", 0.15}}

// directionPlan is a direction, its part of the utterances, and the mean time that one takes.
type directionPlan struct {
	core.Direction
	part    float64
	service time.Duration
}

func directionOf(src, tgt core.Lang, part float64, service time.Duration) directionPlan {
	return directionPlan{core.Direction{Src: src, Tgt: tgt}, part, service}
}

var directionPlans = []directionPlan{
	directionOf("en", "zh", 0.16, 1100*time.Millisecond), directionOf("zh", "en", 0.16, 1000*time.Millisecond),
	directionOf("en", "es", 0.13, 700*time.Millisecond), directionOf("es", "en", 0.12, 700*time.Millisecond),
	directionOf("en", "de", 0.09, 800*time.Millisecond), directionOf("de", "en", 0.08, 800*time.Millisecond),
	directionOf("en", "fr", 0.06, 600*time.Millisecond), directionOf("fr", "en", 0.06, 600*time.Millisecond),
	directionOf("en", "ja", 0.05, 1500*time.Millisecond), directionOf("ja", "en", 0.04, 1400*time.Millisecond),
	directionOf("zh", "ja", 0.03, 1500*time.Millisecond), directionOf("ar", "en", 0.02, 1200*time.Millisecond),
}

// serviceSpread is the standard deviation of the logarithm of the time that an utterance takes.
const serviceSpread = 0.5

// languagePlan is a set of languages that some nodes serve.
type languagePlan struct {
	languages core.LangSet
	part      float64
}

var languagePlans = []languagePlan{
	{core.NewLangSet("en", "zh", "es", "de", "fr", "ja", "ar"), 0.2}, {core.NewLangSet("en", "zh", "ja"), 0.3},
	{core.NewLangSet("en", "es", "de", "fr"), 0.25}, {core.NewLangSet("en", "zh", "es"), 0.15}, {core.NewLangSet("en", "de", "zh", "ar"), 0.1},
}

// slotPlan is a number of slots that some nodes have.
type slotPlan struct {
	slots int
	part  float64
}

var slotPlans = []slotPlan{{1, 0.4}, {2, 0.4}, {4, 0.2}}

// boundPart is the part of the nodes that are in the pool to which a tenant is bound.
const boundPart = 0.08

// meanService returns the mean time that an utterance takes, in milliseconds.
func meanService() float64 {
	sum := 0.0
	for _, d := range directionPlans {
		sum += d.part * float64(d.service.Milliseconds())
	}
	return sum
}

// choose returns a random index, each with its part.
func choose[T any](rng *rand.Rand, list []T, part func(*T) float64) int {
	x := rng.Float64()
	for i := range list {
		if x -= part(&list[i]); x < 0 {
			return i
		}
	}
	return len(list) - 1
}
