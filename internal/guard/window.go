package guard

import "time"

// windowLimit allows a number of uses of each key in a window. The first use of a key opens its window. It is not safe for concurrent
// use.
type windowLimit[K comparable] struct {
	limit  int
	window time.Duration
	keys   map[K]*windowUse
	swept  time.Time
}

type windowUse struct {
	used int
	ends time.Time
}

func newWindowLimit[K comparable](limit int, window time.Duration) *windowLimit[K] {
	return &windowLimit[K]{limit: limit, window: window, keys: make(map[K]*windowUse), swept: time.Now()}
}

// allow counts a use of a key and reports whether it is within the limit.
func (l *windowLimit[K]) allow(key K) bool {
	now := time.Now()
	if now.Sub(l.swept) >= l.window {
		l.sweep(now)
	}
	u := l.keys[key]
	if u == nil || !now.Before(u.ends) {
		u = &windowUse{ends: now.Add(l.window)}
		l.keys[key] = u
	}
	u.used++
	return u.used <= l.limit
}

// sweep drops the keys whose windows have ended, so that only those of the last two windows are kept.
func (l *windowLimit[K]) sweep(now time.Time) {
	l.swept = now
	for key, u := range l.keys {
		if !now.Before(u.ends) {
			delete(l.keys, key)
		}
	}
}
