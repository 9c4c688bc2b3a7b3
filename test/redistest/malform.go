package redistest

import (
	"fmt"
	"regexp"
)

// Malformation is a way in which what is stored is not what was written.
type Malformation struct {
	Name   string
	change func(value string) string // nil: of the key
	score  string                    // of the members of a sorted set; empty: as it is
}

const (
	absent    = "absent"
	wrongType = "wrong type"
)

var number = regexp.MustCompile(`-?\d+(\.\d+)?`)

// Malformations are all of them. Where a value has numbers, they are replaced by what is not the number that was written.
func Malformations() []Malformation {
	numbers := func(by string) func(string) string {
		return func(value string) string { return number.ReplaceAllLiteralString(value, by) }
	}
	return []Malformation{
		{Name: absent}, {Name: wrongType},
		{Name: "empty", change: func(string) string { return "" }},
		{Name: "text", change: numbers("garbage"), score: "+inf"},
		{Name: "negative", change: numbers("-7"), score: "-7"},
		{Name: "20 digits", change: numbers("18446744073709551616"), score: "18446744073709551616"},
		{Name: "cut", change: func(value string) string { return value[:len(value)/2] }},
	}
}

// Keys lists the keys of the server.
func (s *Server) Keys() []string { return texts(s.mustDo("KEYS", "*")) }

// Malform changes a field of what is stored under a key, by its number from 0, or all fields: -1. It returns how many fields there are.
func (s *Server) Malform(key string, how Malformation, field int) (fields int) {
	s.tb.Helper()
	kind := s.mustDo("TYPE", key)
	if how.Name == wrongType {
		write := "SET"
		if kind == "string" {
			write = "SADD"
		}
		// in one step: schedulers write, too
		s.mustDo("EVAL", "redis.call('DEL', KEYS[1]) return redis.call('"+write+"', KEYS[1], 'other')", "1", key)
		return 1
	}
	selected := func() bool {
		fields++
		return field < 0 || field == fields-1
	}
	switch kind {
	case "string":
		value := fmt.Sprint(s.mustDo("GET", key))
		switch {
		case !selected():
		case how.change == nil:
			s.mustDo("DEL", key)
		default:
			s.mustDo("SET", key, how.change(value), "KEEPTTL")
		}
	case "hash":
		values := texts(s.mustDo("HGETALL", key))
		for i := 0; i+1 < len(values); i += 2 {
			switch {
			case !selected():
			case how.change == nil:
				s.mustDo("HDEL", key, values[i])
			default:
				s.mustDo("HSET", key, values[i], how.change(values[i+1]))
			}
		}
	case "zset":
		members := texts(s.mustDo("ZRANGE", key, "0", "-1", "WITHSCORES"))
		for i := 0; i+1 < len(members); i += 2 {
			if selected() {
				s.malformMember(key, how, members[i], members[i+1])
			}
		}
	case "stream":
		entries, _ := s.mustDo("XRANGE", key, "-", "+").([]any)
		for _, e := range entries {
			entry, _ := e.([]any)
			added := []string{"XADD", key, "*"}
			values := texts(entry[1])
			for i := 0; i+1 < len(values); i += 2 {
				switch {
				case !selected():
					added = append(added, values[i], values[i+1])
				case how.change == nil:
					added = append(added, "not "+values[i], values[i+1])
				default:
					added = append(added, values[i], how.change(values[i+1]))
				}
			}
			s.mustDo("XDEL", key, fmt.Sprint(entry[0]))
			s.mustDo(added...)
		}
	}
	return fields
}

// malformMember changes a member of a sorted set, and its score.
func (s *Server) malformMember(key string, how Malformation, member, score string) {
	s.tb.Helper()
	if how.change == nil {
		s.mustDo("ZREM", key, member)
		return
	}
	if how.score != "" {
		score = how.score
	}
	s.mustDo("ZADD", key, score, member)
	s.mustDo("ZADD", key, score, how.change(member))
}

// texts converts the elements of a reply.
func texts(reply any) []string {
	all, _ := reply.([]any)
	list := make([]string, len(all))
	for i, v := range all {
		list[i] = fmt.Sprint(v)
	}
	return list
}
