package lab

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"net/url"
	"strings"
	"time"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/wire"
)

// Mode is how requests are sent.
type Mode string

// The modes.
const (
	HTTP    Mode = "http"    // POST /v1/dispatch/f2f, then reads of the job until it has ended
	Sockets Mode = "sockets" // utterances that are spoken into sessions over WebSockets
)

// LoadConfig describes a run. Every field but the tokens, Sessions, Nodes and what concerns only them is required.
type LoadConfig struct {
	URLs      []string // of the instances, or of the load balancer
	Token     string   // an operator's key
	NodeToken string   // of the stand-in nodes; empty: Token
	Name      string   // begins the ids of the nodes, sessions and requests
	// TLS is for https and wss; nil: the authorities of the system are trusted.
	TLS *tls.Config

	Mode     Mode
	Rate     float64 // requests a second
	Even     bool    // requests are due at equal intervals; otherwise they are a Poisson process
	Warmup   time.Duration
	Duration time.Duration
	Pairs    []Pair
	Sessions int           // 0: as many as the rate needs
	Speech   time.Duration // the duration of an utterance; in mode Sockets
	Timeout  time.Duration // after which a request without an outcome has failed, from when it was due
	Poll     time.Duration // between two reads of a job; in mode HTTP
	MaxLag   time.Duration // of the 99th percentile of the generator's lag, above which a run is invalid

	Nodes         int // stand-in nodes; 0: the nodes that the scheduler has are used
	Slots         int // of each stand-in node
	Work          time.Duration
	WorkSpread    float64 // the standard deviation of the logarithm of the duration of the work
	RealLanguages bool    // stand-in nodes may serve languages that people speak

	Version    wire.VersionResponse // of this program, for the report
	OnProgress func(Progress)       // called every second, and when a phase begins
}

// Pair is a direction of the load: a source and a target language.
type Pair struct{ Src, Tgt string }

func (p Pair) String() string { return p.Src + "→" + p.Tgt }

// ParsePair parses en-zh, or en-US:zh-TW for tags that contain a hyphen.
func ParsePair(text string) (Pair, error) {
	src, tgt, ok := strings.Cut(text, ":")
	if !ok {
		src, tgt, ok = strings.Cut(text, "-")
		ok = ok && !strings.Contains(tgt, "-")
	}
	if !ok {
		return Pair{}, fmt.Errorf("%q is not a direction such as en-zh, or en-US:zh-TW", wire.Quote(text))
	}
	var p Pair
	for _, side := range []struct {
		tag    string
		target *string
	}{{src, &p.Src}, {tgt, &p.Tgt}} {
		lang, err := core.ParseLang(side.tag)
		if err != nil {
			return Pair{}, err
		}
		*side.target = string(lang)
	}
	if p.Src == p.Tgt {
		return Pair{}, fmt.Errorf("%q: the source and the target are the same language", wire.Quote(text))
	}
	return p, nil
}

// privateUse reports whether both languages are codes that ISO 639 reserves for private use (qaa to qtz), so that no real
// session asks for them.
func (p Pair) privateUse() bool {
	isPrivate := func(lang string) bool {
		return len(lang) == 3 && lang >= "qaa" && lang <= "qtz"
	}
	return isPrivate(p.Src) && isPrivate(p.Tgt)
}

// PrivatePair is a direction that no real session asks for.
var PrivatePair = Pair{Src: "qaa", Tgt: "qab"}

const (
	// sessionLoad is the share of its time in which a session speaks, if the number of sessions is chosen by this package, and
	// maxSessionLoad if it is given.
	sessionLoad    = 0.6
	maxSessionLoad = 0.9
	// defaultSessionRate is how many utterances a second a session begins at most, if the number of sessions is chosen by this
	// package. By default a scheduler allows 5.
	defaultSessionRate = 4.0
)

// withDefaults fills in what follows from the rest of the configuration.
func (c LoadConfig) withDefaults() LoadConfig {
	c.NodeToken = cmp.Or(c.NodeToken, c.Token)
	if c.Sessions == 0 {
		c.Sessions = int(math.Ceil(max(1, c.Rate/defaultSessionRate)))
		if c.Mode == Sockets {
			c.Sessions = max(c.Sessions, c.sessionsFor(sessionLoad))
		}
	}
	return c
}

// sessionsFor returns how many sessions speak at the rate if each speaks for a share of its time.
func (c *LoadConfig) sessionsFor(share float64) int {
	return int(math.Ceil(c.Rate * c.Speech.Seconds() / share))
}

// Validate returns an error if the run cannot be made as it is described, whatever the scheduler.
func (c *LoadConfig) Validate() error {
	if c.Mode == Sockets && c.Sessions > 0 {
		if need := c.sessionsFor(maxSessionLoad); c.Sessions < need {
			return fmt.Errorf("%d sessions cannot speak %v utterances of %v each second: use %d sessions or more, or shorter utterances",
				c.Sessions, c.Rate, c.Speech, need)
		}
	}
	if c.Nodes == 0 && len(c.Pairs) == 0 {
		return errors.New("without stand-in nodes the languages must be given: choose a direction that the fleet serves")
	}
	return nil
}

// capacity returns how many jobs a second the stand-in nodes can do; infinite if their work takes no time.
func (c *LoadConfig) capacity() float64 {
	mean := c.Work.Seconds() * math.Exp(c.WorkSpread*c.WorkSpread/2) // of the log-normal distribution
	return float64(c.Nodes*c.Slots) / mean
}

// allLoopback reports whether every address is one of this machine.
func (c *LoadConfig) allLoopback() bool {
	for _, address := range c.URLs {
		u, err := url.Parse(address)
		if err != nil || !config.IsLoopback(u.Hostname()) {
			return false
		}
	}
	return true
}
