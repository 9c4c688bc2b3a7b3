package drill

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// witness hears every script that the servers of a drill run. The instances are asked nothing: what took effect is what
// Redis did. So it sees whether anything was written after nobody waited for it any more, or by somebody who had been
// superseded.
type witness struct {
	mu       sync.Mutex
	scripts  int
	late     int // came after their time
	usurped  int // came from somebody who had been superseded
	effects  []effect
	failures []error

	sessions map[string]*names // by the key of the state
	lives    map[string]string // of nodes, by the key of what is known of them: the epoch
}

// effect is a write that should not have been.
type effect struct {
	at       int64 // on the drill's clock
	kind     string
	evidence string
}

// names is who had a session's name, by incarnation, and which incarnation has it now.
type names struct {
	now   string
	owner map[string]claim
}

// claim says which instance has a session.
type claim struct {
	epoch int64
	owner string
}

// of is what is known of a session's name.
func (w *witness) of(key string) *names {
	if w.sessions[key] == nil {
		w.sessions[key] = &names{owner: make(map[string]claim)}
	}
	return w.sessions[key]
}

// supersedes reports whether a write by a claim on an incarnation comes after the name or the session went to another.
func (n *names) supersedes(incarnation string, c claim) bool {
	held, known := n.owner[incarnation]
	return known && (n.now != incarnation || held.supersedes(c))
}

func newWitness() *witness {
	return &witness{sessions: make(map[string]*names), lives: make(map[string]string)}
}

// startWitness listens to all servers until the test ends.
func startWitness(tb testing.TB, t *topology) *witness {
	tb.Helper()
	w := newWitness()
	for _, server := range t.servers() {
		monitor(tb, server, w.hear, w.fail)
	}
	return w
}

func (w *witness) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failures = append(w.failures, err)
}

// grain is how much the time of a line may differ from what the script itself took for the time.
const grain = 2

// hear judges a script.
func (w *witness) hear(s script) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.scripts++
	if len(s.args) == 0 {
		return // it reads
	}
	if limit, err := strconv.ParseInt(s.args[0], 10, 64); err == nil && limit > 1e12 && s.at > limit+grain {
		w.late++
		w.unless(len(s.writes) == 0, overdue, s, "%d ms late", s.at-limit)
	}
	switch {
	case s.has(":state", ":out", ":out:waiting"):
		w.saved(s)
	case s.has(":out", ":out:waiting", ":state"):
		w.appended(s)
	case s.has(":meta", ":leases"):
		w.node(s)
	}
}

// has reports whether these are the ends of its keys.
func (s script) has(ends ...string) bool {
	if len(s.keys) != len(ends) {
		return false
	}
	for i, end := range ends {
		if !strings.HasSuffix(s.keys[i], end) {
			return false
		}
	}
	return true
}

// wrote finds a command on a key, and says what followed the key.
func (s script) wrote(command, key string) []string {
	for _, w := range s.writes {
		if w[0] == command && len(w) > 1 && w[1] == key {
			return w[2:]
		}
	}
	return nil
}

// unless notes an effect.
func (w *witness) unless(fine bool, kind string, s script, format string, args ...any) {
	if !fine {
		w.effects = append(w.effects, effect{s.at * 1e6, kind, fmt.Sprintf(format, args...) + fmt.Sprintf(": %.200q wrote %.200q", s.keys, s.writes)})
	}
}

// supersedes reports whether a claim was there before another could be made: an older epoch, or the same of another.
func (c claim) supersedes(other claim) bool {
	return c.epoch > other.epoch || c.epoch == other.epoch && c.owner != other.owner
}

// saved judges a session's state: the epoch never goes back, and each has one owner.
func (w *witness) saved(s script) {
	key := s.keys[0]
	name := w.of(key)
	if incarnation, mine := claimOf(s.args, 1); name.supersedes(incarnation, mine) {
		w.usurped++
	}
	value := s.wrote("SET", key)
	if value == nil {
		return
	}
	head, _, _ := strings.Cut(value[0], "\n")
	incarnation, now := claimOf(strings.SplitN(head, " ", 3), 0)
	w.unless(!name.supersedes(incarnation, now), superseded, s, "the session was %v", name)
	name.now, name.owner[incarnation] = incarnation, now
}

// appended judges a message: who says that it must be its owner is.
func (w *witness) appended(s script) {
	if len(s.args) < 8 {
		return
	}
	name, incarnation := w.of(s.keys[2]), s.args[1]
	_, mine := claimOf([]string{s.args[6], incarnation, s.args[7]}, 0)
	if mine.epoch == 0 || !name.supersedes(incarnation, mine) {
		return
	}
	w.usurped++
	w.unless(s.wrote("HSETNX", s.keys[1]) == nil && s.wrote("XADD", s.keys[0]) == nil, superseded, s, "%v appended, the session was %v", mine, name)
}

// claimOf reads an epoch, an incarnation and an owner.
func claimOf(args []string, at int) (incarnation string, c claim) {
	if len(args) < at+3 {
		return "", claim{}
	}
	epoch, _ := strconv.ParseInt(args[at], 10, 64)
	return args[at+1], claim{epoch, args[at+2]}
}

// gates are the epoch and the revision of a node on which a slot of it may be granted.
var gates = regexp.MustCompile(`^(\d+)\.\d+$`)

// node judges what was done to a node: nothing is granted on another life of it, and no other life is heard.
func (w *witness) node(s script) {
	key := s.keys[0]
	written := s.wrote("HSET", key)
	switch {
	case len(s.args) == 4 && gates.MatchString(s.args[2]): // a reservation
		w.life(s, gates.FindStringSubmatch(s.args[2])[1], s.wrote("ZADD", s.keys[1]) != nil)
	case len(s.args) > 4 && isEpoch(s.args[4]): // a heartbeat
		w.life(s, s.args[4], written != nil)
	}
	for i := 0; i+1 < len(written); i += 2 {
		if written[i] == "epoch" {
			w.lives[key] = written[i+1]
		}
	}
}

// isEpoch reports whether a word is that of a node: the microseconds of its first hour, or more.
func isEpoch(word string) bool {
	n, err := strconv.ParseInt(word, 10, 64)
	return err == nil && n > 1e15
}

func (w *witness) life(s script, epoch string, effective bool) {
	is := w.lives[s.keys[0]]
	if is == "" || is == epoch {
		return
	}
	w.usurped++
	w.unless(!effective, superseded, s, "meant for life %s, the node was in %s", epoch, is)
}

// counts is how many scripts there were, and how many of them came after their time.
func (w *witness) counts() (scripts, late int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.scripts, w.late
}

// report is what it heard.
func (w *witness) report() ([]effect, string, []error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.effects, fmt.Sprintf("%d scripts, %d of them late and %d of the superseded, %d took effect", w.scripts, w.late, w.usurped, len(w.effects)), w.failures
}
