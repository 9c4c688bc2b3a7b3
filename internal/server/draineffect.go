package server

import (
	"net/http"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/wire"
)

var dryRunParam = param{
	name: "dry_run", description: "true: nothing is changed, and the answer has drain_effect: what would be missing without the node.",
	kind: "string",
}

// drainOrTry drains a node, or says what would be missing without it. Any other parameter is an error: a misspelt dry_run must not drain
// the node.
func (h *nodeHandlers) drainOrTry(r *http.Request) (*wire.Node, error) {
	q := r.URL.Query()
	for name := range q {
		if name != dryRunParam.name {
			return nil, wire.Invalid("query", "there is no other parameter than %s", dryRunParam.name)
		}
	}
	values := q[dryRunParam.name]
	switch {
	case len(values) == 0, len(values) == 1 && values[0] == "false":
		return h.drain(true)(r)
	case len(values) == 1 && values[0] == "true":
		return h.tryDrain(r)
	}
	return nil, wire.Invalid(dryRunParam.name, "must be true or false")
}

// tryDrain answers with a node and what would be missing without it. It changes nothing.
func (h *nodeHandlers) tryDrain(r *http.Request) (*wire.Node, error) {
	callOf(r.Context()).dryRun = true
	st, effect, err := h.effectOf(r)
	if err != nil {
		return nil, err
	}
	v := h.view(r.Context(), st)
	v.DrainEffect = effect
	return &v, nil
}

// drainEffect answers with what would be missing without a node.
func (h *nodeHandlers) drainEffect(r *http.Request) (*wire.DrainEffect, error) {
	_, effect, err := h.effectOf(r)
	if err != nil {
		return nil, err
	}
	return effect, nil
}

// effectOf returns a node and what would be missing without it.
func (h *nodeHandlers) effectOf(r *http.Request) (store.NodeStatus, *wire.DrainEffect, error) {
	id := r.PathValue("id")
	st, err := h.registry.Node(r.Context(), core.NodeID(id))
	if err != nil {
		return st, nil, err
	}
	effect, err := h.table.DrainEffect(r.Context(), st.Node)
	if err != nil {
		return st, nil, errNoEffect()
	}
	effect.InFlight = st.Reserved + st.Running
	return st, effect, nil
}

// errNoEffect is the answer to a request that ended before the effect of a drain was computed.
func errNoEffect() *wire.Error {
	return wire.Errorf(wire.DeadlineExceeded, "the request ended before the effect was computed")
}
