package session

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/wire"
)

// saved is a session as it is kept in the store: nothing that anybody said, and no token, only what the token hashes to.
type saved struct {
	Hash                     string
	Settings                 settings
	Options                  []core.Options // that its utterances were begun with, each once; the first is the present one
	Turns                    int64
	Cut                      int64 // the last audio frame of which it was decided where it belongs
	Confirmed                int64 // the last durable message that the client has
	Tallied                  int64 // the last that is in the totals, or was gone before it could be
	Results, Errors, AudioMS int64
	Closed                   []closedUtterance
	Cuts                     []cut
}

// cut is an utterance whose terminal message has not been sent.
type cut struct {
	Turn, First, Last int64
	ID                string
	Request           core.RequestID
	Direction         core.Direction
	AudioMS           int64
	Options           int   // which of the session's
	TTS               bool  // the result is to be spoken
	Continues         int64 // the turn of which it is a further part; 0: none
	Reason            string
}

// state writes the session down.
func (s *Session) state() ([]byte, error) {
	v := saved{
		Hash: s.hash, Settings: s.set, Turns: s.turns, Cut: s.cut, Confirmed: s.confirmed, Tallied: s.tallied,
		Results: s.totals.Results, Errors: s.totals.Errors, AudioMS: s.totals.AudioMS, Closed: s.closed,
	}
	index := map[*optionSet]int{s.options: 0}
	v.Options = append(v.Options, s.options.Options)
	for _, u := range s.waiting() {
		at, ok := index[u.options]
		if !ok {
			at = len(v.Options)
			index[u.options], v.Options = at, append(v.Options, u.options.Options)
		}
		v.Cuts = append(v.Cuts, cut{
			Turn: u.turn, First: u.first, Last: u.last, ID: u.id, Request: u.request, Direction: u.direction,
			AudioMS: u.spec.Utterance.AudioMS, Options: at, TTS: u.spec.Options.RequireTTS, Continues: u.spec.Utterance.Continues, Reason: u.reason,
		})
	}
	return json.Marshal(v)
}

// optionSet is options that utterances were begun with. It is shared by all of them.
type optionSet struct{ core.Options }

const (
	// maxOptions bounds the options of a session, and maxAllOptions those of all its utterances that wait.
	maxOptions    = 4 << 10
	maxAllOptions = 16 << 10
	// optionCost is what one name takes beside its bytes.
	optionCost = 4
)

// size is about what the options take when they are saved.
func (o *optionSet) size() int {
	n := len(o.PreferredNode) + len(o.Region)
	for _, list := range [][]string{o.RequiredServices, o.RequiredModels, o.Features} {
		for _, name := range list {
			n += len(name) + optionCost
		}
	}
	return n
}

// setOptions makes options those of utterances that begin from now on.
func (s *Session) setOptions(o core.Options) *wire.Error {
	next := &optionSet{o}
	if n := next.size(); n > maxOptions {
		return wire.Invalid("options", "the names in it take %d bytes together; at most %d", n, maxOptions)
	}
	all := map[*optionSet]bool{next: true}
	for _, u := range s.turn {
		all[u.options] = true
	}
	if s.open != nil {
		all[s.open.options] = true
	}
	total := 0
	for set := range maps.Keys(all) {
		total += set.size()
	}
	if total > maxAllOptions {
		return wire.FieldErrorf(wire.RateLimited, "options",
			"the options of the utterances that wait for their results take more than %d bytes: wait for some of them", maxAllOptions)
	}
	s.options = next
	return nil
}

// restoreOptions takes up saved options, and returns them by their index.
func (s *Session) restoreOptions(list []core.Options) []*optionSet {
	sets := make([]*optionSet, 0, len(list))
	for _, o := range list {
		sets = append(sets, &optionSet{o})
	}
	if len(sets) > 0 {
		s.options = sets[0]
	}
	return sets
}

// waiting are the utterances whose terminal messages have not been sent, in their order.
func (s *Session) waiting() []*utterance {
	list := slices.Collect(maps.Values(s.turn))
	sortTurns(list)
	return list
}
