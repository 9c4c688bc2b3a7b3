package clustertest

import (
	"fmt"
	"maps"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// ScriptAuditor checks every script that the servers of a cluster run: whether it wrote anything after its caller had
// stopped waiting, or for an owner that had been superseded. It relies on what Redis did, and on nothing that the instances
// report.
type ScriptAuditor struct {
	mu         sync.Mutex
	scripts    int
	late       int // scripts that ran after their deadline
	superseded int // scripts for an owner that had been superseded
	violations []ScriptViolation
	errs       []error

	sessions map[string]*sessionClaims // by the key of the session's state
	epochs   map[string]string         // of nodes, by the key of their metadata
	created  map[string]int64          // when the record of each job was first written, see journal.Now
}

// ScriptViolation is a write that should not have taken effect.
type ScriptViolation struct {
	At       int64 // nanoseconds, see journal.Now
	Kind     string
	Evidence string
}

// sessionClaims is which instance owned each incarnation of a session, and which incarnation is the present one.
type sessionClaims struct {
	current string
	owners  map[string]ownership
}

// ownership is the owner of a session in one epoch.
type ownership struct {
	epoch int64
	owner string
}

// claimsOf returns the claims on a session.
func (a *ScriptAuditor) claimsOf(key string) *sessionClaims {
	if a.sessions[key] == nil {
		a.sessions[key] = &sessionClaims{owners: make(map[string]ownership)}
	}
	return a.sessions[key]
}

// supersedes reports whether a write by an owner of an incarnation comes after another incarnation or another owner has
// taken over.
func (c *sessionClaims) supersedes(incarnation string, writer ownership) bool {
	owner, known := c.owners[incarnation]
	return known && (c.current != incarnation || owner.supersedes(writer))
}

func newScriptAuditor() *ScriptAuditor {
	return &ScriptAuditor{sessions: make(map[string]*sessionClaims), epochs: make(map[string]string), created: make(map[string]int64)}
}

// StartScriptAuditor audits all servers until the end of the test.
func StartScriptAuditor(tb testing.TB, redis *Redis) *ScriptAuditor {
	tb.Helper()
	a := newScriptAuditor()
	for _, server := range redis.Servers() {
		MonitorScripts(tb, server, a.check, a.addError)
	}
	return a
}

func (a *ScriptAuditor) addError(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.errs = append(a.errs, err)
}

// Kinds of violations that a ScriptAuditor reports.
const (
	LateWrite       = "a write that took effect after its caller had stopped waiting for it"
	SupersededWrite = "a write that took effect after another owner had taken over"
)

// clockToleranceMS is how much the time that MONITOR reports may differ from the time that the script itself read.
const clockToleranceMS = 2

// check checks a script.
func (a *ScriptAuditor) check(s Script) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.scripts++
	if len(s.Args) == 0 {
		return // it only reads
	}
	if limit, err := strconv.ParseInt(s.Args[0], 10, 64); err == nil && limit > 1e12 && s.AtMS > limit+clockToleranceMS {
		a.late++
		a.addUnless(len(s.Writes) == 0, LateWrite, s, "%d ms late", s.AtMS-limit)
	}
	switch {
	case s.hasKeys(":state", ":out", ":out:waiting"):
		a.checkState(s)
	case s.hasKeys(":out", ":out:waiting", ":state"):
		a.checkOutbox(s)
	case s.hasKeys(":meta", ":leases"):
		a.checkNode(s)
	case s.hasKeys(":fsm"):
		a.recordCreation(s)
	}
}

// recordCreation records when the record of a job was first written.
func (a *ScriptAuditor) recordCreation(s Script) {
	_, id, _ := strings.Cut(s.Keys[0], "{job:")
	id, _, _ = strings.Cut(id, "}")
	if _, known := a.created[id]; !known && s.wrote("SET", s.Keys[0]) != nil {
		a.created[id] = s.AtMS * 1e6
	}
}

// Created returns when the record of each job was first written, as journal.Now does.
func (a *ScriptAuditor) Created() map[string]int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.created)
}

// hasKeys reports whether the keys of the script have these suffixes.
func (s Script) hasKeys(suffixes ...string) bool {
	if len(s.Keys) != len(suffixes) {
		return false
	}
	for i, suffix := range suffixes {
		if !strings.HasSuffix(s.Keys[i], suffix) {
			return false
		}
	}
	return true
}

// wrote returns the arguments after the key of a command that the script called on a key, or nil.
func (s Script) wrote(command, key string) []string {
	for _, words := range s.Writes {
		if words[0] == command && len(words) > 1 && words[1] == key {
			return words[2:]
		}
	}
	return nil
}

// addUnless adds a violation unless the condition holds.
func (a *ScriptAuditor) addUnless(holds bool, kind string, s Script, format string, args ...any) {
	if !holds {
		a.violations = append(a.violations,
			ScriptViolation{s.AtMS * 1e6, kind, fmt.Sprintf(format, args...) + fmt.Sprintf(": %.200q wrote %.200q", s.Keys, s.Writes)})
	}
}

// supersedes reports whether this ownership makes another one invalid: it has a later epoch, or the same epoch and another
// owner.
func (c ownership) supersedes(other ownership) bool {
	return c.epoch > other.epoch || c.epoch == other.epoch && c.owner != other.owner
}

// checkState checks a write of a session's state: the epoch never decreases, and each epoch has one owner.
func (a *ScriptAuditor) checkState(s Script) {
	key := s.Keys[0]
	claims := a.claimsOf(key)
	if incarnation, writer := parseClaim(s.Args, 1); claims.supersedes(incarnation, writer) {
		a.superseded++
	}
	value := s.wrote("SET", key)
	if value == nil {
		return
	}
	head, _, _ := strings.Cut(value[0], "\n")
	incarnation, now := parseClaim(strings.SplitN(head, " ", 3), 0)
	a.addUnless(!claims.supersedes(incarnation, now), SupersededWrite, s, "the session was %v", claims)
	claims.current, claims.owners[incarnation] = incarnation, now
}

// checkOutbox checks a durable message: if the script demands an owner, the owner must be the present one.
func (a *ScriptAuditor) checkOutbox(s Script) {
	if len(s.Args) < 8 {
		return
	}
	claims, incarnation := a.claimsOf(s.Keys[2]), s.Args[1]
	_, writer := parseClaim([]string{s.Args[6], incarnation, s.Args[7]}, 0)
	if writer.epoch == 0 || !claims.supersedes(incarnation, writer) {
		return
	}
	a.superseded++
	a.addUnless(s.wrote("HSETNX", s.Keys[1]) == nil && s.wrote("XADD", s.Keys[0]) == nil, SupersededWrite, s,
		"%v appended, the session was %v", writer, claims)
}

// parseClaim parses an epoch, an incarnation and an owner.
func parseClaim(args []string, at int) (incarnation string, c ownership) {
	if len(args) < at+3 {
		return "", ownership{}
	}
	epoch, _ := strconv.ParseInt(args[at], 10, 64)
	return args[at+1], ownership{epoch, args[at+2]}
}

// reservationGuard is the epoch and the revision of a node for which a reservation is valid.
var reservationGuard = regexp.MustCompile(`^(\d+)\.\d+$`)

// checkNode checks a change of a node: neither a reservation nor a heartbeat for an earlier epoch takes effect.
func (a *ScriptAuditor) checkNode(s Script) {
	key := s.Keys[0]
	written := s.wrote("HSET", key)
	switch {
	case len(s.Args) == 4 && reservationGuard.MatchString(s.Args[2]): // a reservation
		a.checkEpoch(s, reservationGuard.FindStringSubmatch(s.Args[2])[1], s.wrote("ZADD", s.Keys[1]) != nil)
	case len(s.Args) > 4 && isEpoch(s.Args[4]): // a heartbeat
		a.checkEpoch(s, s.Args[4], written != nil)
	}
	for i := 0; i+1 < len(written); i += 2 {
		if written[i] == "epoch" {
			a.epochs[key] = written[i+1]
		}
	}
}

// isEpoch reports whether a word can be the epoch of a node, which is a time in microseconds.
func isEpoch(word string) bool {
	n, err := strconv.ParseInt(word, 10, 64)
	return err == nil && n > 1e15
}

func (a *ScriptAuditor) checkEpoch(s Script, epoch string, effective bool) {
	is := a.epochs[s.Keys[0]]
	if is == "" || is == epoch {
		return
	}
	a.superseded++
	a.addUnless(!effective, SupersededWrite, s, "meant for epoch %s, the node was in %s", epoch, is)
}

// Counts returns how many scripts ran, and how many of them after their deadline.
func (a *ScriptAuditor) Counts() (scripts, late int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.scripts, a.late
}

// Report returns the violations, a summary, and errors of the monitoring itself.
func (a *ScriptAuditor) Report() ([]ScriptViolation, string, []error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.violations, fmt.Sprintf("%d scripts, %d of them late and %d for superseded owners, %d took effect", a.scripts, a.late,
		a.superseded, len(a.violations)), a.errs
}
