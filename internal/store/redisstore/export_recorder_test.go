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
	"github.com/lingua-scheduler/lingua/internal/store"
)

// RecordedReply is the reply to one command on a node's keys.
type RecordedReply struct {
	Now   int64 // the server's clock in milliseconds, 0 if the reply does not contain it
	Value int64 // the next part of the reply, if it is a number
	Err   error
}

// Rewrite returns the command that is sent in place of another, nil to leave it as it is.
type Rewrite func(command []string) []string

// Recorder is a Redis client that records the replies about each node, and can rewrite commands to break a store on purpose.
type Recorder struct {
	rueidis.Client
	rewrite   Rewrite
	rewritten atomic.Int64

	mu      sync.Mutex
	replies map[core.NodeID]chan RecordedReply
}

// Recorded returns a store like s on the same connection, with a recorder in between. It ends with s.
func Recorded(s *Store, timeout time.Duration, rewrite Rewrite) (*Store, *Recorder) {
	recorder := &Recorder{Client: s.client.redis, rewrite: rewrite, replies: make(map[core.NodeID]chan RecordedReply)}
	t := &Store{
		timing: s.timing, keys: s.keys, log: s.log, presenceMS: s.presenceMS, reservedTTLMS: s.reservedTTLMS, attemptMS: s.attemptMS, ctx: s.ctx, cancel: s.cancel,
		client: newClient(s.ctx, recorder, s.client.cluster, timeout, func(bool) {}, func(store.ErrorClass) {}),
	}
	t.client.reads = s.client.reads
	t.recent.keep = s.timing.Retention
	t.incarnation.base, t.incarnation.maxJob = time.Now(), s.timing.Job
	t.lastSeen = newLastSeenReporter(t)
	return t, recorder
}

// Replies returns the replies about a node, in their order.
func (r *Recorder) Replies(node core.NodeID) <-chan RecordedReply { return r.repliesOf(node) }

func (r *Recorder) repliesOf(node core.NodeID) chan RecordedReply {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.replies[node] == nil {
		r.replies[node] = make(chan RecordedReply, 8)
	}
	return r.replies[node]
}

// Rewritten returns how many commands were rewritten.
func (r *Recorder) Rewritten() int64 { return r.rewritten.Load() }

// Do implements rueidis.Client.
func (r *Recorder) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	command := slices.Clone(cmd.Commands())
	if r.rewrite != nil {
		if other := r.rewrite(command); other != nil {
			r.rewritten.Add(1)
			cmd = r.B().Arbitrary(other...).Build()
		}
	}
	result := r.Client.Do(ctx, cmd)
	if node := nodeOf(command); node != "" && !isNoScript(result.Error()) {
		select {
		case r.repliesOf(node) <- recordReply(result):
		default: // no client reads them: the connection broke and the test of this node was ended
		}
	}
	return result
}

// DoMulti implements rueidis.Client. It sends the commands one after the other.
func (r *Recorder) DoMulti(ctx context.Context, cmds ...rueidis.Completed) []rueidis.RedisResult {
	results := make([]rueidis.RedisResult, len(cmds))
	for i, cmd := range cmds {
		results[i] = r.Do(ctx, cmd)
	}
	return results
}

// nodeOf returns the node whose keys a command uses, if any.
func nodeOf(command []string) core.NodeID {
	at := 1
	if strings.HasPrefix(command[0], "EVAL") {
		at = 3
	}
	if len(command) <= at {
		return ""
	}
	_, tag, _ := strings.Cut(command[at], "{node:")
	node, _, _ := strings.Cut(tag, "}")
	return core.NodeID(node)
}

func recordReply(r rueidis.RedisResult) RecordedReply {
	if err := convertError(r.Error()); err != nil {
		return RecordedReply{Err: err}
	}
	if n, err := r.AsInt64(); err == nil {
		if n < compactCodes*compactCounts {
			return RecordedReply{Value: n} // not of a script
		}
		return RecordedReply{Now: n/(compactCodes*compactCounts) + scoreEpochMS, Value: n / compactCounts % compactCodes}
	}
	parts, err := r.ToArray()
	if err != nil || len(parts) == 0 {
		return RecordedReply{Err: fmt.Errorf("not the reply of a script: %w", err)}
	}
	all := reply{parts: parts}
	o := RecordedReply{Now: all.int(0)}
	if len(parts) > 1 {
		o.Value = all.int(1)
	}
	return o
}

// RewriteScript replaces one passage of a script by another.
func RewriteScript(name, passage, other string) (Rewrite, error) {
	original := loadScript(name, "")
	passage, other = expandConstants(passage), expandConstants(other)
	if n := strings.Count(original.text, passage); n != 1 || passage == other {
		return nil, fmt.Errorf("%s.lua has %d passages %q to replace, want 1", name, n, passage)
	}
	rewritten := strings.Replace(original.text, passage, other, 1)
	sum := sha1.Sum([]byte(rewritten)) //nolint:gosec // it is the name by which Redis knows a script
	sha := hex.EncodeToString(sum[:])
	return func(command []string) []string {
		switch {
		case command[0] == "EVALSHA" && command[1] == original.sha:
			return append([]string{"EVALSHA", sha}, command[2:]...)
		case command[0] == "EVAL" && command[1] == original.text:
			return append([]string{"EVAL", rewritten}, command[2:]...)
		}
		return nil
	}, nil
}

// RewriteRelease replaces releases by a script of KEYS leases and ARGV member, which returns how many it removed.
func RewriteRelease(text string) Rewrite {
	return func(command []string) []string {
		if command[0] == "ZREM" && nodeOf(command) != "" {
			return []string{"EVAL", text, "1", command[1], command[2]}
		}
		return nil
	}
}
