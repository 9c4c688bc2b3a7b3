package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"

	"github.com/lingua-scheduler/lingua/wire"
)

// Update changes what the node declares, while it runs or before: its health, its languages and services, how many jobs it
// does at once. What change leaves out stays as it is; a list that is empty but not nil is one with nothing in it. The
// scheduler is told at once, and again after every reconnect. It returns an error, and changes nothing, if a node cannot
// declare that. What only the scheduler can judge, such as a language tag, it judges later: it answers with a warning in the
// node's log, and refuses a node that registers with it.
//
// When MaxConcurrentJobs becomes less than the jobs in hand, these go on, and none is taken until there is room again.
func (n *Node) Update(change wire.Declaration) error {
	switch {
	case change.Active != nil || change.CurrentLoad != nil:
		return errors.New("node: Active and CurrentLoad are filled in at every heartbeat; see Config.Load")
	case change.TenantID != nil || change.CallbackURL != nil:
		return errors.New("node: TenantID and CallbackURL cannot change; start another node")
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	declared, err := changed(&n.declared, &change)
	if err != nil {
		return err
	}
	unsaid, err := changed(&n.unsaid, &change)
	if err != nil {
		return err
	}
	since, err := changed(&n.since, &change)
	if err != nil {
		return err
	}
	n.declared, n.unsaid, n.since = declared, unsaid, since
	signal(n.soon)
	return nil
}

// unheard has the next heartbeat say again what changed: the scheduler could not take it in.
func (n *Node) unheard(l *link) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.link == l {
		n.unsaid = n.since
	}
}

// changed is a copy of a declaration with a change, which shares nothing with either. The error says what is not valid.
func changed(d, change *wire.Declaration) (wire.Declaration, error) {
	if most := change.MaxConcurrentJobs; most != nil && (*most < 0 || *most > mostSlots) {
		return wire.Declaration{}, fmt.Errorf("node: MaxConcurrentJobs is %d; it may be 0 to %d", *most, mostSlots)
	}
	if change.SemanticLangs != nil && len(change.SemanticLangs) == 0 {
		return wire.Declaration{}, errors.New("node: SemanticLangs is empty; name the languages whose speech the node understands, or declare another Health")
	}
	switch change.Health {
	case "", "ready", "degraded", healthDraining, "offline":
	default:
		return wire.Declaration{}, fmt.Errorf("node: Health is %q; it may be ready, degraded, draining or offline", change.Health)
	}
	next := *d
	if change.InstalledServices != nil {
		next.CapabilityState = nil // a new list says itself how its services are
	}
	states := maps.Clone(next.CapabilityState)
	into, from := reflect.ValueOf(&next).Elem(), reflect.ValueOf(change).Elem()
	for i := range from.NumField() {
		if f := from.Field(i); !f.IsZero() { // as it is written: what is absent is unchanged
			into.Field(i).Set(f)
		}
	}
	if states != nil && change.CapabilityState != nil {
		maps.Copy(states, change.CapabilityState) // of the others the last that was said stands
		next.CapabilityState = states
	}
	text, err := json.Marshal(next)
	if err != nil {
		return wire.Declaration{}, fmt.Errorf("node: the declaration cannot be sent: %w", err)
	}
	if len(text) > mostDeclared {
		return wire.Declaration{}, fmt.Errorf("node: the declaration takes %d bytes; %d is the most", len(text), mostDeclared)
	}
	var apart wire.Declaration
	err = json.Unmarshal(text, &apart)
	return apart, err
}
