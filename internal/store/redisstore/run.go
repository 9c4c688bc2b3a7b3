package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"
)

// reply is what a script returned, without the time that every reply begins with. A brief one is a code and a count.
type reply struct {
	parts []rueidis.RedisMessage
	brief [2]int64 // when there are no parts
	late  bool
}

// run carries out a script that writes. A script that came too late did nothing: errLate.
func (l *line) run(ctx context.Context, s *script, keys []string, args ...string) (int64, reply, error) {
	slot := l.slot(keys[0])
	whole := append(make([]string, 1, len(args)+1), args...)
	for again := false; ; again = true {
		c := l.begin(ctx)
		whole[0] = strconv.FormatInt(l.clocks.notAfter(c.sooner(), slot), 10)
		now, r, err := l.eval(c, s, slot, keys, whole)
		if err != nil {
			return 0, reply{}, err
		}
		if !r.late {
			return now, r, nil
		}
		// Too late; or its clock is not what it was taken for. If there is time left it was the clock.
		l.clocks.relearn(slot, now)
		if again || !inTime(c.sooner()) {
			return now, reply{}, fmt.Errorf("%s: %w", s.name, errLate)
		}
	}
}

// inTime reports whether enough of a caller's time is left for another try.
func inTime(ctx context.Context) bool {
	end, ok := ctx.Deadline()
	return ctx.Err() == nil && (!ok || time.Until(end) > 10*time.Millisecond)
}

// read carries out a script that writes nothing.
func (l *line) read(ctx context.Context, s *script, keys []string, args ...string) (int64, reply, error) {
	return l.eval(l.begin(ctx), s, l.slot(keys[0]), keys, args)
}

func (l *line) eval(c call, s *script, slot int, keys, args []string) (int64, reply, error) {
	m, err := l.one(c, l.evalsha(s, keys, args))
	if unknown(err) {
		m, err = l.one(c, l.fulltext(s, keys, args))
	}
	if err != nil {
		return 0, reply{}, fmt.Errorf("%s: %w", s.name, err)
	}
	return l.parse(s, slot, &m)
}

func (l *line) evalsha(s *script, keys, args []string) rueidis.Completed {
	return l.redis.B().Evalsha().Sha1(s.sha).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build()
}

// fulltext is for a server that does not have the script: it takes it over with this.
func (l *line) fulltext(s *script, keys, args []string) rueidis.Completed {
	return l.redis.B().Eval().Script(s.text).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build()
}

// unknown reports whether the server does not have the script: it has restarted, or another has its place.
func unknown(err error) bool {
	reply, ok := rueidis.IsRedisErr(err)
	return ok && reply.IsNoScript()
}

// parse takes the time off a reply.
func (l *line) parse(s *script, slot int, m *rueidis.RedisMessage) (int64, reply, error) {
	if m.IsInt64() {
		word, err := m.AsInt64()
		now := word/(briefCodes*briefCounts) + epoch
		l.clocks.learn(slot, now)
		return now, reply{brief: [2]int64{word / briefCounts % briefCodes, word % briefCounts}}, err
	}
	parts, err := m.ToArray()
	if err != nil {
		return 0, reply{}, fmt.Errorf("%s: %w", s.name, err)
	}
	now, err := parts[0].ToInt64()
	if err != nil {
		return 0, reply{}, fmt.Errorf("%s: %w", s.name, err)
	}
	l.clocks.learn(slot, now)
	return now, reply{parts: parts[1:], late: len(parts) == 1}, nil
}

// How a brief reply holds its code and its count; scripts/lib.lua says why.
const (
	briefCodes  = 16
	briefCounts = 256
)

func (l *line) slot(key string) int {
	if !l.cluster {
		return 0
	}
	return slotOf(key)
}

// ask is a script that writes nothing, as one of several.
type ask struct {
	keys []string
	args []string
}

// batch is how many commands go out at once.
const batch = 64

// readEach carries out one script that writes nothing with many keys, and hands over each reply in order.
func (l *line) readEach(ctx context.Context, s *script, asks []ask, each func(i int, now int64, r reply) error) error {
	for from := 0; from < len(asks); from += batch {
		some := asks[from:min(from+batch, len(asks))]
		c := l.begin(ctx)
		cmds := make([]rueidis.Completed, len(some))
		for i, a := range some {
			cmds[i] = l.evalsha(s, a.keys, a.args)
		}
		results, err := l.many(c, cmds)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		for i, a := range some {
			slot := l.slot(a.keys[0])
			m, err := results[i].ToMessage()
			if unknown(err) {
				m, err = l.one(c, l.fulltext(s, a.keys, a.args))
			}
			if err = spoken(err); err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			now, r, err := l.parse(s, slot, &m)
			if err != nil {
				return err
			}
			if err := each(from+i, now, r); err != nil {
				return err
			}
		}
	}
	return nil
}

// The parts of replies. A part that is not what the script promises reads as zero: the scripts are ours, and the
// suite runs every one of them.

func (r reply) int(i int) int64 {
	if r.parts == nil {
		return r.brief[i]
	}
	n, _ := r.parts[i].AsInt64()
	return n
}

func (r reply) text(i int) string {
	s, _ := r.parts[i].ToString()
	return s
}

func (r reply) list(i int) reply {
	parts, _ := r.parts[i].ToArray()
	return reply{parts: parts}
}

func (r reply) texts(i int) []string {
	texts, _ := r.parts[i].AsStrSlice()
	return texts
}

func (r reply) none(i int) bool { return r.parts[i].IsNil() }
