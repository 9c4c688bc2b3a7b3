package guard

import "time"

// windowLimit allows a number of uses of each key in a window. The first use of a key opens its window. It is not safe for concurrent
// use. Keys that are not used any more are forgotten after two windows.
type windowLimit[K comparable] struct {
	limit   int
	window  time.Duration
	keys    map[K]*windowUse
	earlier map[K]*windowUse // those of the window before
	rotated time.Time
}

type windowUse struct {
	used int
	ends time.Time
}

func newWindowLimit[K comparable](limit int, window time.Duration) *windowLimit[K] {
	return &windowLimit[K]{limit: limit, window: window, keys: make(map[K]*windowUse), rotated: time.Now()}
}

// allow counts a use of a key and reports whether it is within the limit.
func (l *windowLimit[K]) allow(key K) bool {
	now := time.Now()
	if now.Sub(l.rotated) >= l.window {
		l.earlier, l.keys, l.rotated = l.keys, make(map[K]*windowUse), now
	}
	u := l.keys[key]
	if u == nil {
		if u = l.earlier[key]; u == nil || !now.Before(u.ends) {
			u = new(windowUse)
		}
		l.keys[key] = u
	}
	if !now.Before(u.ends) {
		*u = windowUse{ends: now.Add(l.window)}
	}
	u.used++
	return u.used <= l.limit
}
