package drill

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/test/clustertest"
)

const keyPrefix = clustertest.KeyPrefix

// malformedMark is the prefix of the marks in the malformed messages that the drill sends. Exactly these messages must
// become dead letters.
const malformedMark = "drill-malformed-"

// sendMalformed adds malformed messages to the inboxes of running instances, and returns their marks.
func (c *testCluster) sendMalformed(count int) []string {
	c.TB.Helper()
	var running []string
	c.Must(clustertest.EventuallyEvery(c.TB.Context(), 100*time.Millisecond, 10*time.Second, func() (err error) {
		running, err = c.incarnations()
		return err
	}))
	var marks []string
	for n := range count {
		key := clustertest.InboxKey(running[n%len(running)])
		server, err := c.Redis.ServerOf(key)
		c.Must(err)
		c.malformed++
		mark := fmt.Sprintf("%s%d", malformedMark, c.malformed)
		_, err = server.Do("XADD", key, "*", "drill", mark)
		c.Must(err)
		marks = append(marks, mark)
	}
	return marks
}

// incarnations returns the present incarnation of every instance, which is part of the instance's keys. It is an error if
// an instance has none, or two because the presence of the earlier one has not expired.
func (c *testCluster) incarnations() ([]string, error) {
	const presence = keyPrefix + ":schedulers:presence:{instance:"
	present, err := c.Redis.Keys(presence + "*")
	if err != nil {
		return nil, err
	}
	var running []string
	for _, i := range c.Instances {
		var own []string
		for _, f := range present {
			incarnation := strings.TrimSuffix(strings.TrimPrefix(f.Key, presence), "}")
			if strings.HasPrefix(incarnation, i.Name+"-") {
				own = append(own, incarnation)
			}
		}
		if len(own) != 1 {
			return running, fmt.Errorf("%s has %d incarnations: %v", i.Name, len(own), own)
		}
		running = append(running, own...)
	}
	return running, nil
}

// checkDeadLetters checks that exactly the malformed messages became dead letters.
func checkDeadLetters(deadLetters []clustertest.DeadLetter, marks []string) []violation {
	var violations []violation
	found := make(map[string]int)
	for _, l := range deadLetters {
		// A mark may be the prefix of another, so whole fields are compared.
		fields := strings.FieldsFunc(l.Text, func(r rune) bool { return strings.ContainsRune(" []{}\"':,", r) })
		at := slices.IndexFunc(fields, func(f string) bool { return slices.Contains(marks, f) })
		if at < 0 {
			violations = append(violations, violation{wrongDeadLetter, fmt.Sprintf("%s %s was not sent as malformed: %.300s", l.Key, l.ID, l.Text)})
			continue
		}
		found[fields[at]]++
	}
	for _, m := range marks {
		if found[m] != 1 {
			violations = append(violations, violation{wrongDeadLetter, fmt.Sprintf("%s is a dead letter %d times, want once", m, found[m])})
		}
	}
	return violations
}

// permanentKeys are the keys of the store itself.
var permanentKeys = []string{keyPrefix + ":v1:incarnation", keyPrefix + ":v1:nodes:changes", keyPrefix + ":v1:ping", keyPrefix + ":v1:events", keyPrefix + ":v1:audit", keyPrefix + ":v1:settings:pools"}

// isStatsKey reports whether a key belongs to the statistics: what instances have counted, the snapshot, the history, and the lock of the
// instance that computes it. They all expire.
func isStatsKey(key string) bool {
	return strings.HasPrefix(key, keyPrefix+":v1:stats:") || strings.HasPrefix(key, keyPrefix+":v1:locks:{lock:stats}")
}

// isQueueState reports whether a key holds what a queue without requests still knows of shares. The other keys of a queue have members only while
// requests wait.
func isQueueState(key string) bool {
	return strings.HasPrefix(key, keyPrefix+":v1:wait:{pool:") && (strings.HasSuffix(key, "}:book") || strings.HasSuffix(key, "}:timers"))
}

// isTenantState reports whether a key says that jobs or sessions of a tenant were counted.
func isTenantState(key string) bool {
	return strings.HasPrefix(key, keyPrefix+":v1:tenants:{tenant:") && strings.HasSuffix(key, ":known")
}

// isEmptyCount reports whether a key holds the jobs or the sessions of a tenant, and none is counted: it has only its mark, and counts of instances that
// were killed, which have expired. An instance that is killed after the admission of a job and before it is recorded leaves its count until then.
func isEmptyCount(f clustertest.KeyLocation, running []string, now int64) bool {
	if !strings.HasPrefix(f.Key, keyPrefix+":v1:tenants:{tenant:") || !strings.HasSuffix(f.Key, "}:jobs") && !strings.HasSuffix(f.Key, "}:sessions") {
		return false
	}
	counted, err := f.Server.Do("ZRANGEBYSCORE", f.Key, fmt.Sprintf("(%d", now), "+inf")
	if err != nil || fmt.Sprint(counted) != "[!]" {
		return false
	}
	all, err := f.Server.Do("ZRANGE", f.Key, "0", "-1")
	members, ok := all.([]any)
	return err == nil && ok && !slices.ContainsFunc(members, func(member any) bool {
		return slices.ContainsFunc(running, func(instance string) bool { return strings.HasPrefix(fmt.Sprint(member), instance+".") })
	})
}

// isExpectedKey reports whether a key belongs to the store, to a running instance, or to the dead letters of malformed
// messages.
func isExpectedKey(key string, running []string, malformed bool) bool {
	if slices.Contains(permanentKeys, key) || key == keyPrefix+":schedulers:all" && len(running) > 0 || isStatsKey(key) ||
		malformed && strings.HasSuffix(key, ":dlq") || isQueueState(key) || isTenantState(key) {
		return true
	}
	return slices.ContainsFunc(running, func(name string) bool {
		return key == keyPrefix+":schedulers:presence:{instance:"+name+"}" || key == clustertest.InboxKey(name)
	})
}

// leftoverKeys lists the keys that should not exist, as soon as there are none, or after the timeout.
func (c *testCluster) leftoverKeys(ctx context.Context, timeout time.Duration, malformed bool) ([]string, error) {
	var running []string
	var rest []clustertest.KeyLocation
	var failed error
	_ = clustertest.EventuallyEvery(ctx, 250*time.Millisecond, timeout, func() error { // the keys that remain are the result
		var all []clustertest.KeyLocation
		if running, failed = c.incarnations(); failed != nil {
			return failed
		}
		if all, failed = c.Redis.Keys("*"); failed != nil {
			return failed
		}
		var now int64
		if now, failed = c.Redis.Clock(); failed != nil {
			return failed
		}
		rest = slices.DeleteFunc(all, func(f clustertest.KeyLocation) bool {
			return isExpectedKey(f.Key, running, malformed) || isEmptyCount(f, running, now)
		})
		if len(rest) > 0 {
			return fmt.Errorf("%d keys", len(rest))
		}
		return nil
	})
	if failed != nil {
		return nil, failed
	}
	var list []string
	for _, f := range rest {
		ttl, err := f.Server.Do("PTTL", f.Key)
		if err != nil {
			return nil, err
		}
		list = append(list, fmt.Sprintf("%s (TTL %v ms)", f.Key, ttl))
	}
	return append(list, c.unknownInstances(running)...), nil
}

// waitEvent waits until the event log has an event of a kind, which instances write behind their work.
func (c *testCluster) waitEvent(kind string) error {
	key := keyPrefix + ":v1:events"
	server, err := c.Redis.ServerOf(key)
	if err != nil {
		return err
	}
	return clustertest.EventuallyEvery(c.TB.Context(), 100*time.Millisecond, 20*time.Second, func() error {
		entries, err := server.Do("XRANGE", key, "-", "+")
		if err == nil && !strings.Contains(fmt.Sprint(entries), `"kind":"`+kind+`"`) {
			err = errors.New(kind)
		}
		return err
	})
}

// unknownInstances lists registered instances that neither run nor have dead letters. An instance with dead letters stays
// registered, so that they can be found.
func (c *testCluster) unknownInstances(running []string) []string {
	key := keyPrefix + ":schedulers:all"
	server, err := c.Redis.ServerOf(key)
	if err != nil {
		return []string{err.Error()}
	}
	deadLetters, err := c.Redis.Keys(keyPrefix + ":streams:*:dlq")
	if err != nil {
		return []string{err.Error()}
	}
	reply, err := server.Do("ZRANGE", key, "0", "-1")
	if err != nil {
		return []string{key + ": " + err.Error()}
	}
	members, _ := reply.([]any)
	var list []string
	for _, m := range members {
		name := fmt.Sprint(m)
		if !slices.Contains(running, name) && !slices.ContainsFunc(deadLetters, func(f clustertest.KeyLocation) bool { return strings.Contains(f.Key, "{instance:"+name+"}") }) {
			list = append(list, fmt.Sprintf("%s lists %s", key, name))
		}
	}
	return list
}

func TestDeadLettersMatchMalformedMessages(t *testing.T) {
	t.Parallel()
	marks := []string{malformedMark + "1", malformedMark + "10"}
	in := func(texts ...string) (list []clustertest.DeadLetter) {
		for _, text := range texts {
			list = append(list, clustertest.DeadLetter{Key: "dlq", Text: text})
		}
		return list
	}
	for name, c := range map[string]struct {
		deadLetters []clustertest.DeadLetter
		wrong       int
	}{
		"exactly the malformed messages": {in("[drill "+malformedMark+"10 why unreadable]", `[body {"drill":"`+malformedMark+`1"}]`), 0},
		"one is missing":                 {in("[drill " + malformedMark + "10]"), 1},
		"one became two dead letters":    {in("[drill "+malformedMark+"10]", "[drill "+malformedMark+"1]", "[drill "+malformedMark+"1]"), 1},
		"one was not malformed":          {in("[drill "+malformedMark+"10]", "[drill "+malformedMark+"1]", "[drill job_assign]"), 1},
	} {
		if got := checkDeadLetters(c.deadLetters, marks); len(got) != c.wrong {
			t.Errorf("%s: %v, want %d violations", name, got, c.wrong)
		}
	}
}

func TestExpectedKeys(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]bool{
		keyPrefix + ":v1:incarnation":                     true,
		keyPrefix + ":v1:nodes:changes":                   true,
		keyPrefix + ":schedulers:all":                     true,
		keyPrefix + ":schedulers:presence:{instance:i-0}": true,
		keyPrefix + ":schedulers:presence:{instance:i-9}": false,
		keyPrefix + ":streams:{instance:i-0}:inbox":       true,
		keyPrefix + ":streams:{instance:i-9}:inbox":       false,
		keyPrefix + ":streams:{instance:i-0}:dlq":         false,
		keyPrefix + ":v1:nodes:{node:n}:leases":           false,
		keyPrefix + ":nodes:owner:{node:n}":               false,
		keyPrefix + ":v1:sessions:{session:/s}:i:out":     false,
		keyPrefix + ":v1:locks:{lock:silent:n}:fence":     false,
		keyPrefix + ":v1:locks:{lock:stats}":              true,
		keyPrefix + ":v1:locks:{lock:stats}:fence":        true,
		keyPrefix + ":v1:stats:snapshot":                  true,
		keyPrefix + ":v1:settings:pools":                  true,
		keyPrefix + ":v1:stats:counts:{instance:i-9}":     true,
		keyPrefix + ":v1:nodes:last_seen:3":               false,
		keyPrefix + ":v1:wait:{pool:}:book":               true,
		keyPrefix + ":v1:wait:{pool:}:timers":             true,
		keyPrefix + ":v1:wait:{pool:}:line":               false,
		keyPrefix + ":v1:wait:{pool:}:held":               false,
		keyPrefix + ":v1:tenants:{tenant:acme}:jobs":      false,
		keyPrefix + ":v1:tenants:{tenant:a}:jobs:known":   true,
		"other:v1:incarnation":                            false,
	} {
		if got := isExpectedKey(key, []string{"i-0", "i-1"}, false); got != want {
			t.Errorf("%s: %v, want %v", key, got, want)
		}
	}
	if !isExpectedKey(keyPrefix+":streams:{instance:i-9}:dlq", nil, true) {
		t.Error("a dead letter of a malformed message is not expected")
	}
}

// TestLeftoverKeys finds the inbox of a dead instance, and a registered instance of which nothing else exists, in every
// topology.
func TestLeftoverKeys(t *testing.T) {
	t.Parallel()
	for _, topology := range []string{clustertest.Standalone, clustertest.Sentinel, clustertest.RedisCluster} {
		t.Run(topology, func(t *testing.T) {
			t.Parallel()
			testLeftoverKeys(t, clustertest.StartRedis(t, topology, 1))
		})
	}
}

func testLeftoverKeys(t *testing.T, r *clustertest.Redis) {
	t.Helper()
	c := &testCluster{Cluster: &clustertest.Cluster{TB: t, Redis: r, Instances: []*clustertest.Instance{{Name: "i-0"}}}}
	all, present := keyPrefix+":schedulers:all", keyPrefix+":schedulers:presence:{instance:i-0-a}"
	inbox, deadInbox := clustertest.InboxKey("i-0-a"), clustertest.InboxKey("i-1-b")
	dlq := strings.TrimSuffix(deadInbox, "inbox") + "dlq"
	counted, none := keyPrefix+":v1:tenants:{tenant:a}:jobs", keyPrefix+":v1:tenants:{tenant:b}:jobs"
	expired, ofKilled := keyPrefix+":v1:tenants:{tenant:c}:jobs", keyPrefix+":v1:tenants:{tenant:d}:jobs"
	for key, args := range map[string][]string{
		all: {"ZADD", all, "1", "i-0-a", "2", "i-1-b", "3", "i-2-c"}, present: {"SET", present, "{}"},
		inbox:     {"XADD", inbox, "*", "x", "y"},
		deadInbox: {"XADD", deadInbox, "*", "x", "y"},
		dlq:       {"XADD", dlq, "*", "x", "y"},
		counted:   {"ZADD", counted, "+inf", "!", "9999999999999", "i-1-b.1"},
		none:      {"ZADD", none, "+inf", "!"},
		expired:   {"ZADD", expired, "+inf", "!", "1", "i-0-a.1"},
		ofKilled:  {"ZADD", ofKilled, "+inf", "!", "1", "i-1-b.1"},
	} {
		server, err := r.ServerOf(key)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := server.Do(args...); err != nil {
			t.Fatal(err)
		}
	}
	size, err := r.KeyCount()
	if err != nil || size != 9 {
		t.Errorf("%d keys, %v; want two inboxes, dead letters, a presence, a list of instances and four sets of jobs", size, err)
	}
	keys, err := c.leftoverKeys(t.Context(), 0, true)
	slices.Sort(keys)
	if err != nil || len(keys) != 4 || !strings.HasPrefix(keys[0], all+" lists i-2-c") || !strings.HasPrefix(keys[1], deadInbox+" ") || !strings.HasPrefix(keys[2], counted) || !strings.HasPrefix(keys[3], expired) {
		t.Errorf("leftovers %q, %v; want the inbox of i-1, a job that is counted, one of a running instance, and the registration of i-2, which has no dead letters", keys, err)
	}
}
