package drill

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// poison is what the drill itself put into inboxes, and what must be found among the dead letters, and nothing else.
const poison = "drill-poison-"

// poisoned puts messages that nobody can read into the inboxes of living instances, and returns their marks.
func (c *cluster) poisoned(count int) []string {
	c.tb.Helper()
	var living []string
	c.need(eventuallyEvery(c.tb.Context(), 100*time.Millisecond, 10*time.Second, func() (err error) {
		living, err = c.lives()
		return err
	}))
	var marks []string
	for n := range count {
		key := inboxKey(living[n%len(living)])
		server, err := c.redis.at(key)
		c.need(err)
		c.marks++
		mark := fmt.Sprintf("%s%d", poison, c.marks)
		_, err = server.Do("XADD", key, "*", "drill", mark)
		c.need(err)
		marks = append(marks, mark)
	}
	return marks
}

// lives names the present life of every instance: an instance's keys are those of one life of its process. It is an error
// if one has none, or, until the last one lapses, two.
func (c *cluster) lives() ([]string, error) {
	const before = prefix + ":schedulers:presence:{instance:"
	present, err := c.redis.keys(before + "*")
	if err != nil {
		return nil, err
	}
	var living []string
	for _, i := range c.instances {
		var mine []string
		for _, f := range present {
			life := strings.TrimSuffix(strings.TrimPrefix(f.key, before), "}")
			if strings.HasPrefix(life, i.name+"-") {
				mine = append(mine, life)
			}
		}
		if len(mine) != 1 {
			return living, fmt.Errorf("%s has %d lives: %v", i.name, len(mine), mine)
		}
		living = append(living, mine...)
	}
	return living, nil
}

// wrongLetters holds the dead letters against the poison.
func wrongLetters(letters []letter, marks []string) []violation {
	var broken []violation
	found := make(map[string]int)
	for _, l := range letters {
		// A longer mark may begin with a shorter one, so the fields are compared whole.
		fields := strings.FieldsFunc(l.text, func(r rune) bool { return strings.ContainsRune(" []{}\"':,", r) })
		at := slices.IndexFunc(fields, func(f string) bool { return slices.Contains(marks, f) })
		if at < 0 {
			broken = append(broken, violation{deadLetter, fmt.Sprintf("%s %s was no poison: %.300s", l.key, l.id, l.text)})
			continue
		}
		found[fields[at]]++
	}
	for _, m := range marks {
		if found[m] != 1 {
			broken = append(broken, violation{deadLetter, fmt.Sprintf("%s is there %d times, want once", m, found[m])})
		}
	}
	return broken
}

// forGood are the keys of the store itself.
var forGood = []string{prefix + ":v1:incarnation", prefix + ":v1:nodes:changes", prefix + ":v1:ping"}

// ofTheLiving reports whether a key belongs to something that lives: the store, an instance that runs, or the poison.
func ofTheLiving(key string, living []string, poisoned bool) bool {
	if slices.Contains(forGood, key) || key == prefix+":schedulers:all" && len(living) > 0 ||
		strings.HasPrefix(key, prefix+":v1:stats:snapshot:") || poisoned && strings.HasSuffix(key, ":dlq") {
		return true
	}
	return slices.ContainsFunc(living, func(name string) bool {
		return key == prefix+":schedulers:presence:{instance:"+name+"}" || key == inboxKey(name)
	})
}

// wrongKeys lists the keys of nothing that lives, as soon as there are none, or when all should have gone.
func (c *cluster) wrongKeys(ctx context.Context, within time.Duration, poisoned bool) ([]string, error) {
	var living []string
	var rest []found
	var failed error
	_ = eventuallyEvery(ctx, 250*time.Millisecond, within, func() error { // what remains is the answer
		var all []found
		if living, failed = c.lives(); failed != nil {
			return failed
		}
		if all, failed = c.redis.keys("*"); failed != nil {
			return failed
		}
		rest = slices.DeleteFunc(all, func(f found) bool { return ofTheLiving(f.key, living, poisoned) })
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
		ttl, err := f.at.Do("PTTL", f.key)
		if err != nil {
			return nil, err
		}
		list = append(list, fmt.Sprintf("%s (TTL %v ms)", f.key, ttl))
	}
	return append(list, c.strangers(living)...), nil
}

// strangers are instances that are listed and neither live nor have left dead letters: those can be found as long as
// whoever they were for is listed.
func (c *cluster) strangers(living []string) []string {
	key := prefix + ":schedulers:all"
	server, err := c.redis.at(key)
	if err != nil {
		return []string{err.Error()}
	}
	letters, err := c.redis.keys(prefix + ":streams:*:dlq")
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
		if !slices.Contains(living, name) && !slices.ContainsFunc(letters, func(f found) bool { return strings.Contains(f.key, "{instance:"+name+"}") }) {
			list = append(list, fmt.Sprintf("%s lists %s", key, name))
		}
	}
	return list
}
