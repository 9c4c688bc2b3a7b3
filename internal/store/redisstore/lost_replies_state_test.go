//go:build !race

package redisstore_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store/redisstore"
	"github.com/lingua-scheduler/lingua/test/redistest"
)

// redisState is everything that Redis holds about one subject, by labels such as meta.epoch.
type redisState map[string]string

// dumpKeys reads keys of any type, atomically.
const dumpKeys = `
local all = {}
for i, key in ipairs(KEYS) do
  local kind = redis.call('TYPE', key).ok
  if kind == 'string' then all[i] = redis.call('GET', key)
  elseif kind == 'hash' then all[i] = redis.call('HGETALL', key)
  elseif kind == 'zset' then all[i] = redis.call('ZRANGE', key, 0, -1, 'WITHSCORES')
  elseif kind == 'stream' then
    all[i] = redis.call('XRANGE', key, '-', '+')
    local fetched = redis.pcall('XPENDING', key, 'inbox', '-', '+', 10) -- an error where there is no such group
    if not fetched.err then all[i][#all[i] + 1] = fetched end
  else all[i] = false end
end
return all`

// readState reads everything that Redis holds about the subject with a name.
func readState(server *redistest.Server, prefix, name string) (redisState, error) {
	keys := redisstore.KeysByLabel(prefix, name)
	labels := slices.Sorted(maps.Keys(keys))
	args := []string{"EVAL", dumpKeys, strconv.Itoa(len(labels))}
	for _, label := range labels {
		args = append(args, keys[label])
	}
	reply, err := server.Do(args...)
	if err != nil {
		return nil, err
	}
	values, _ := reply.([]any)
	s := make(redisState)
	for i, label := range labels {
		switch value := values[i].(type) {
		case string:
			s[label] = value
		case []any:
			s.add(label, name, value)
		}
	}
	return s, nil
}

// add adds the parts of a key. The last-seen times of many nodes, and all revocations, are in one key; the expiry of leases and the times
// of revocations are left out, because every write renews them.
func (s redisState) add(label, name string, parts []any) {
	switch label {
	case "out":
		s[label] = fmt.Sprint(parts)
		return
	case "claims": // claimant and expiry differ between two subjects
		s[label] = strconv.Itoa(len(parts) / 2)
		return
	case "inbox", "dead": // without times
		s[label] = streamTimes.ReplaceAllString(fmt.Sprint(parts), "")
		return
	}
	for i := 0; i+1 < len(parts); i += 2 {
		key, value := fmt.Sprint(parts[i]), fmt.Sprint(parts[i+1])
		if strings.HasPrefix(label, "queue.") {
			s.addQueue(label, key, value)
			continue
		}
		switch label {
		case "seen":
			if key != name {
				continue
			}
		case "revocations":
			if !strings.HasSuffix(key, "~"+name) {
				continue
			}
			value = value[strings.Index(value, "{"):]
		case "leases":
			score, _ := strconv.ParseFloat(value, 64)
			r := redisstore.ParseScore(score)
			s["reserved."+key] = strconv.FormatInt(r.Reserved, 10)
			value = fmt.Sprintf("%s, omitted %d", r.State, r.Omitted)
		}
		s[label+"."+key] = value
	}
}

// streamTimes matches the ids of stream entries, and the idle times of pending ones.
var streamTimes = regexp.MustCompile(`\d{13}-\d+|(inbox|takeover) \d+`)

// has reports whether there is a value with a label, or with a label that begins with it and a dot.
func (s redisState) has(label string) bool {
	for key := range s {
		if key == label || strings.HasPrefix(key, label+".") {
			return true
		}
	}
	return false
}

// renewedFields matches the fields that every repeated call may renew: expiries, and when a node was last seen.
var renewedFields = regexp.MustCompile(`^(meta\.(seen|held)|marks\.)`)

// timeFields matches the fields that contain times, which differ between two subjects.
var timeFields = regexp.MustCompile(`^(meta\.(epoch|grant|seen|held|admission)|seen\.|marks\.|reserved\.|fence$|tenant_(jobs|sessions)\.|rates\.|incarnation\.|(snapshot|history|setting)\.published)`)

// withoutLabel returns the state without the values of a label. The last-seen time is written by a command of its own, which a call that
// lost an earlier reply makes only when it is repeated.
func (s redisState) withoutLabel(label string) redisState {
	kept := maps.Clone(s)
	maps.DeleteFunc(kept, func(key, _ string) bool { return strings.HasPrefix(key, label+".") })
	return kept
}

// mask replaces the values of fields that match, or are listed, by a placeholder.
func (s redisState) mask(some *regexp.Regexp, names ...string) redisState {
	masked := make(redisState, len(s))
	for key, value := range s {
		if value != "" && (some.MatchString(key) || slices.Contains(names, key)) {
			value = "some"
		}
		masked[key] = value
	}
	return masked
}

// describeJob formats a record without times and epochs.
func describeJob(job *core.Job) string {
	if job == nil {
		return "none"
	}
	text := fmt.Sprintf("%s %d on %s by %s, owner %q, reason %q, result %q, version %d", job.State, job.Attempt, job.Node,
		job.Token, job.Owner, job.Reason, job.Result, job.Version)
	for _, a := range job.History {
		text += fmt.Sprintf("; %d on %s by %s, ended %v %q", a.Attempt, a.Node, a.Token, !a.Ended.IsZero(), a.Reason)
	}
	return text
}
