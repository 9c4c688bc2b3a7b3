package redisstore_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/redistest"
	"github.com/lingua-scheduler/lingua/internal/store/redisstore"
)

// state is all that Redis holds about one subject, by names such as meta.epoch.
type state map[string]string

// dumpKeys reads keys of any kind, as they are at one moment.
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

// stateOf reads all that Redis holds about whatever has this name.
func stateOf(server *redistest.Server, prefix, name string) (state, error) {
	keys := redisstore.KeysOf(prefix, name)
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
	s := make(state)
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

// add takes in the parts of a key. When nodes were heard is kept for many in one; of leases, when they end is left
// out, because whatever writes them renews it.
func (s state) add(label, name string, parts []any) {
	switch label {
	case "out":
		s[label] = fmt.Sprint(parts)
		return
	case "claims": // who has one, and until when, is not the same for two
		s[label] = strconv.Itoa(len(parts) / 2)
		return
	case "inbox", "dead": // but for what tells the time
		s[label] = streamTimes.ReplaceAllString(fmt.Sprint(parts), "")
		return
	}
	for i := 0; i+1 < len(parts); i += 2 {
		key, value := fmt.Sprint(parts[i]), fmt.Sprint(parts[i+1])
		switch label {
		case "seen":
			if key != name {
				continue
			}
		case "leases":
			score, _ := strconv.ParseFloat(value, 64)
			r := redisstore.ReadScore(score)
			s["since."+key] = strconv.FormatInt(r.Since, 10)
			value = fmt.Sprintf("%s, left out %d", r.State, r.Omitted)
		}
		s[label+"."+key] = value
	}
}

// streamTimes matches the names of a stream's entries, and how long ago they were fetched.
var streamTimes = regexp.MustCompile(`\d{13}-\d+|(inbox|takeover) \d+`)

// has reports whether anything is there under a name, or with a part of it.
func (s state) has(label string) bool {
	for key := range s {
		if key == label || strings.HasPrefix(key, label+".") {
			return true
		}
	}
	return false
}

// renewed matches what every repeat may write anew: until when something counts, or when a node was heard.
var renewed = regexp.MustCompile(`^(meta\.(seen|held)|marks\.)`)

// timed matches what tells the time, and so cannot be the same for two subjects.
var timed = regexp.MustCompile(`^(meta\.(epoch|grant|seen|held)|seen\.|marks\.|since\.|fence$|incarnation\.)`)

// but leaves out whether the node is on the list of those that were heard: that is a step of its own, which a call
// that lost a reply before it makes only when it is repeated.
func (s state) but(label string) state {
	kept := maps.Clone(s)
	maps.DeleteFunc(kept, func(key, _ string) bool { return strings.HasPrefix(key, label+".") })
	return kept
}

// without leaves out values, but not whether there is one: those that match, and those that are named.
func (s state) without(some *regexp.Regexp, names ...string) state {
	masked := make(state, len(s))
	for key, value := range s {
		if value != "" && (some.MatchString(key) || slices.Contains(names, key)) {
			value = "some"
		}
		masked[key] = value
	}
	return masked
}

// describe is what a record says, but for when, and in which life of its node.
func describe(job *core.Job) string {
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
