package redisstore

import (
	"context"
	"crypto/sha1" //nolint:gosec // as below
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// Overheard is what Redis answered to one command on a node's keys.
type Overheard struct {
	Now   int64 // the server's clock in milliseconds, 0 where the reply does not tell
	Value int64 // what follows it, where that is a number
	Err   error
}

// Instead is what goes to Redis in place of a command, nil to leave it as it is.
type Instead func(words []string) []string

// Tap stands between a store and Redis. It overhears what is answered about each node, and a store that is to be
// broken sends other words through it.
type Tap struct {
	rueidis.Client
	instead  Instead
	replaced atomic.Int64

	mu    sync.Mutex
	nodes map[core.NodeID]chan Overheard
}

// Tapped is a store like s on the same connection, but through a tap. It ends with s.
func Tapped(s *Store, within time.Duration, instead Instead) (*Store, *Tap) {
	tap := &Tap{Client: s.client.redis, instead: instead, nodes: make(map[core.NodeID]chan Overheard)}
	t := &Store{
		timing: s.timing, keys: s.keys, log: s.log, presenceMS: s.presenceMS, reservedTTLMS: s.reservedTTLMS, attemptMS: s.attemptMS, ctx: s.ctx, cancel: s.cancel,
		client: newClient(s.ctx, tap, s.client.cluster, within, func(bool) {}),
	}
	t.recent.keep = s.timing.Retention
	t.incarnation.base, t.incarnation.maxJob = time.Now(), s.timing.Job
	t.lastSeen = newLastSeenReporter(t)
	return t, tap
}

// Of is where the answers about a node arrive, in their order.
func (t *Tap) Of(node core.NodeID) <-chan Overheard { return t.of(node) }

func (t *Tap) of(node core.NodeID) chan Overheard {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.nodes[node] == nil {
		t.nodes[node] = make(chan Overheard, 8)
	}
	return t.nodes[node]
}

// Replaced is how many commands went out in other words.
func (t *Tap) Replaced() int64 { return t.replaced.Load() }

// Do implements rueidis.Client.
func (t *Tap) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	words := slices.Clone(cmd.Commands())
	if t.instead != nil {
		if other := t.instead(words); other != nil {
			t.replaced.Add(1)
			cmd = t.B().Arbitrary(other...).Build()
		}
	}
	r := t.Client.Do(ctx, cmd)
	if node := about(words); node != "" && !isNoScript(r.Error()) {
		select {
		case t.of(node) <- overheard(r):
		default: // nobody listens: the line broke and its node was given up
		}
	}
	return r
}

// DoMulti implements rueidis.Client, one after the other.
func (t *Tap) DoMulti(ctx context.Context, cmds ...rueidis.Completed) []rueidis.RedisResult {
	results := make([]rueidis.RedisResult, len(cmds))
	for i, cmd := range cmds {
		results[i] = t.Do(ctx, cmd)
	}
	return results
}

// about is the node whose keys a command works on, if any.
func about(words []string) core.NodeID {
	at := 1
	if strings.HasPrefix(words[0], "EVAL") {
		at = 3
	}
	if len(words) <= at {
		return ""
	}
	_, tag, _ := strings.Cut(words[at], "{node:")
	node, _, _ := strings.Cut(tag, "}")
	return core.NodeID(node)
}

func overheard(r rueidis.RedisResult) Overheard {
	if err := convertError(r.Error()); err != nil {
		return Overheard{Err: err}
	}
	if n, err := r.AsInt64(); err == nil {
		if n < compactCodes*compactCounts {
			return Overheard{Value: n} // of a plain command
		}
		return Overheard{Now: n/(compactCodes*compactCounts) + scoreEpochMS, Value: n / compactCounts % compactCodes}
	}
	parts, err := r.ToArray()
	if err != nil || len(parts) == 0 {
		return Overheard{Err: fmt.Errorf("no reply of ours: %w", err)}
	}
	all := reply{parts: parts}
	o := Overheard{Now: all.int(0)}
	if len(parts) > 1 {
		o.Value = all.int(1)
	}
	return o
}

// Altered has a script run with one passage of it exchanged for another.
func Altered(name, passage, other string) (Instead, error) {
	genuine := loadScript(name)
	passage, other = expandConstants(passage), expandConstants(other)
	if n := strings.Count(genuine.text, passage); n != 1 || passage == other {
		return nil, fmt.Errorf("%s.lua has %d passages %q to exchange for another, want 1", name, n, passage)
	}
	altered := strings.Replace(genuine.text, passage, other, 1)
	sum := sha1.Sum([]byte(altered)) //nolint:gosec // it is the name by which Redis knows a script
	sha := hex.EncodeToString(sum[:])
	return func(words []string) []string {
		switch {
		case words[0] == "EVALSHA" && words[1] == genuine.sha:
			return append([]string{"EVALSHA", sha}, words[2:]...)
		case words[0] == "EVAL" && words[1] == genuine.text:
			return append([]string{"EVAL", altered}, words[2:]...)
		}
		return nil
	}, nil
}

// Releasing has a release run as a script of KEYS leases and ARGV member, which returns how many it removed.
func Releasing(text string) Instead {
	return func(words []string) []string {
		if words[0] == "ZREM" && about(words) != "" {
			return []string{"EVAL", text, "1", words[1], words[2]}
		}
		return nil
	}
}
