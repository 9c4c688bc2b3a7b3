package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/wire"
)

const (
	healthDraining = "draining"
	// maxDeclarationBytes is the maximum size of a declaration, which shares a message with the list of jobs.
	maxDeclarationBytes = wire.MaxFrame / 4
)

// registration is what the scheduler assigned to the node.
type registration struct {
	nodeID string
	// resumeToken is the token of the last registration. Before the first it is a secret of the node's own choice, so that a
	// registration whose answer was lost can be repeated.
	resumeToken string
	epoch       int64
	heartbeats  uint64        // sent in this epoch
	interval    time.Duration // between heartbeats
}

// accepts reports whether an acknowledgement is for this node.
func (r *registration) accepts(ack *wire.NodeRegisterAck) bool {
	return ack.NodeID != "" && (r.nodeID == "" || ack.NodeID == r.nodeID)
}

// apply takes over an acknowledgement. The heartbeats of an epoch are numbered from 1.
func (r *registration) apply(ack *wire.NodeRegisterAck, defaultInterval time.Duration) {
	if ack.Epoch != r.epoch {
		r.heartbeats = 0
	}
	r.nodeID, r.epoch, r.resumeToken = ack.NodeID, ack.Epoch, ack.ResumeToken
	r.interval = defaultInterval
	if ack.HeartbeatIntervalMS > 0 {
		r.interval = milliseconds(ack.HeartbeatIntervalMS)
	}
}

// declaration is what the node declares, and how much of it the scheduler knows.
type declaration struct {
	current       wire.Declaration
	unreported    wire.Declaration // changes that the next heartbeat reports
	sinceRegister wire.Declaration // changes since the last registration was sent
}

// update merges a change, or returns an error and changes nothing.
func (d *declaration) update(change *wire.Declaration) error {
	current, err := merge(&d.current, change)
	if err != nil {
		return err
	}
	unreported, err := merge(&d.unreported, change)
	if err != nil {
		return err
	}
	sinceRegister, err := merge(&d.sinceRegister, change)
	if err != nil {
		return err
	}
	*d = declaration{current: current, unreported: unreported, sinceRegister: sinceRegister}
	return nil
}

// takeUnreported returns the changes for the next heartbeat.
func (d *declaration) takeUnreported() wire.Declaration {
	changes := d.unreported
	d.unreported = wire.Declaration{}
	return changes
}

// reportAgain schedules all changes since the registration for the next heartbeat. It reports whether there are any.
func (d *declaration) reportAgain() bool {
	if reflect.ValueOf(d.sinceRegister).IsZero() {
		return false
	}
	d.unreported = d.sinceRegister
	return true
}

// merge returns a copy of a declaration with a change, which shares no memory with either. It returns an error if the
// change is invalid.
func merge(d, change *wire.Declaration) (wire.Declaration, error) {
	if slots := change.MaxConcurrentJobs; slots != nil && (*slots < 0 || *slots > maxSlots) {
		return wire.Declaration{}, fmt.Errorf("node: MaxConcurrentJobs is %d; it may be 0 to %d", *slots, maxSlots)
	}
	if change.SemanticLangs != nil && len(change.SemanticLangs) == 0 {
		return wire.Declaration{}, errors.New("node: SemanticLangs is empty; name the languages whose speech the node understands, or " +
			"declare another Health")
	}
	switch change.Health {
	case "", "ready", "degraded", healthDraining, "offline":
	default:
		return wire.Declaration{}, fmt.Errorf("node: Health is %q; it may be ready, degraded, draining or offline", change.Health)
	}
	merged := *d
	if change.InstalledServices != nil {
		merged.CapabilityState = nil // a new list of services has their states
	}
	states := maps.Clone(merged.CapabilityState)
	to, from := reflect.ValueOf(&merged).Elem(), reflect.ValueOf(change).Elem()
	for i := range from.NumField() {
		if f := from.Field(i); !f.IsZero() { // as on the wire, an absent field is unchanged
			to.Field(i).Set(f)
		}
	}
	if states != nil && change.CapabilityState != nil {
		maps.Copy(states, change.CapabilityState) // the states of other services are unchanged
		merged.CapabilityState = states
	}
	text, err := json.Marshal(merged)
	if err != nil {
		return wire.Declaration{}, fmt.Errorf("node: the declaration cannot be encoded: %w", err)
	}
	if len(text) > maxDeclarationBytes {
		return wire.Declaration{}, fmt.Errorf("node: the declaration has %d bytes; the maximum is %d", len(text), maxDeclarationBytes)
	}
	var copied wire.Declaration
	err = json.Unmarshal(text, &copied)
	return copied, err
}

// Update changes the declaration of the node, before or while it runs: its health, languages, services, number of slots. A
// zero field of change leaves the declaration as it is; a list that is empty but not nil clears it. The node reports the
// change at once, and again after every reconnect. Update returns an error, and changes nothing, if the change is invalid. A
// value that only the scheduler can check, such as a language tag, may be refused later: the scheduler then answers a
// heartbeat with a warning, which the node logs, and refuses a registration.
//
// If MaxConcurrentJobs becomes less than the number of current jobs, these continue, and the node accepts no new one until
// there is a free slot again.
func (n *Node) Update(change wire.Declaration) error {
	switch {
	case change.Active != nil || change.CurrentLoad != nil:
		return errors.New("node: Active and CurrentLoad are filled in at every heartbeat; see Config.Load")
	case change.TenantID != nil || change.CallbackURL != nil:
		return errors.New("node: TenantID and CallbackURL cannot change; start another node")
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.declaration.update(&change); err != nil {
		return err
	}
	signal(n.heartbeatNow)
	return nil
}

// beginRegistration returns the first message of a connection. Until endRegistration or adopt no job is accepted, because
// the registration would not list it.
func (n *Node) beginRegistration() wire.NodeRegister {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.registering = true
	n.expireOutcomes()
	n.declaration.sinceRegister = wire.Declaration{}
	r := wire.NodeRegister{
		NodeID: n.registration.nodeID, ResumeToken: n.registration.resumeToken, KeepaliveMS: n.timing.keepalive.Milliseconds(),
		Declaration: n.declaration.current,
	}
	r.Active = n.attempts.list(true) // the scheduler sends the rest of the audio that the lost connection did not deliver
	if n.leaving {
		r.Health = healthDraining
	}
	return r
}

// cancelRegistration continues with the previous state after a registration that failed.
func (n *Node) cancelRegistration() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.registering = false
}

// acceptsAck reports whether an acknowledgement is for this node.
func (n *Node) acceptsAck(ack *wire.NodeRegisterAck) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.registration.accepts(ack)
}

// adopt makes a registered connection the node's connection. It repeats what the previous one may not have delivered.
func (n *Node) adopt(conn *connection, ack *wire.NodeRegisterAck) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.registering, n.conn, n.declaration.unreported = false, conn, wire.Declaration{}
	n.applyAck(ack)
	for _, a := range n.attempts.byKey {
		switch a.stage {
		case stageRunning:
			if a.job.audio.restartTimeout(); a.isAudioInFrames() && slices.Contains(ack.NoAudio, a.key) {
				a.job.audio.fail()
			}
			conn.send(wire.JobAck{ActiveJob: a.key})
		case stageFinished:
			n.deliver(a)
		}
	}
}

// applyAck takes over an acknowledgement; the caller holds the lock.
func (n *Node) applyAck(ack *wire.NodeRegisterAck) {
	n.refusing = false
	n.registration.apply(ack, n.timing.heartbeatInterval)
	if n.declaration.reportAgain() { // a change that was reported to an earlier epoch only is lost
		signal(n.heartbeatNow)
	}
	n.log.Info("node is registered", "node_id", ack.NodeID, "epoch", ack.Epoch, "status", ack.Status, "jobs", len(n.attempts.byKey))
	for _, key := range ack.Cancel {
		n.cancelAttempt(n.conn, key)
	}
}

// detach records that a connection is lost.
func (n *Node) detach(conn *connection) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.conn == conn {
		n.conn = nil
	}
}

// sendHeartbeat reports that the node is alive, which jobs it has, and what changed in its declaration.
func (n *Node) sendHeartbeat() {
	load := n.load.current()
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.conn == nil {
		return
	}
	n.registration.heartbeats++
	number, epoch := n.registration.heartbeats, n.registration.epoch
	h := wire.NodeHeartbeat{Epoch: &epoch, HBSeq: &number, Declaration: n.declaration.takeUnreported()}
	h.Active, h.CurrentLoad = n.attempts.list(false), load
	if n.leaving {
		h.Health = healthDraining
	}
	n.conn.send(h)
}

// nextHeartbeat returns the time to the next heartbeat, jittered so that nodes do not send theirs at once.
func (n *Node) nextHeartbeat() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return run.Jitter(n.registration.interval, 0.2)
}

// loadReader calls Config.Load, one call at a time.
type loadReader struct {
	read func() wire.Load // nil: the load is not known
	mu   sync.Mutex
}

// current returns the load of the machine; nil if it is not known.
func (l *loadReader) current() *wire.Load {
	if l.read == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	load := l.read()
	return &wire.Load{CPU: clamp(load.CPU), GPU: clamp(load.GPU), Memory: clamp(load.Memory)}
}

// clamp limits a value to the range from 0 to 1. NaN, which JSON cannot express, counts as not known.
func clamp(value *float64) *float64 {
	if value == nil || math.IsNaN(*value) {
		return nil
	}
	clamped := min(max(*value, 0), 1)
	return &clamped
}
