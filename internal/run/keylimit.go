package run

import "time"

// KeyLimit allows a number of uses of each key in a window. The first use of a key opens its window. It is not safe for concurrent use.
// Keys that are not used any more are forgotten after two windows.
type KeyLimit[K comparable] struct {
	limit   int
	window  time.Duration
	keys    map[K]*use
	earlier map[K]*use // those of the window before
	rotated time.Time
}

type use struct {
	count int
	ends  time.Time
}

// NewKeyLimit makes a limit.
func NewKeyLimit[K comparable](limit int, window time.Duration) *KeyLimit[K] {
	return &KeyLimit[K]{limit: limit, window: window, keys: make(map[K]*use), rotated: time.Now()}
}

// Allow counts a use of a key and reports whether it is within the limit.
func (l *KeyLimit[K]) Allow(key K) bool {
	now := time.Now()
	if now.Sub(l.rotated) >= l.window {
		l.earlier, l.keys, l.rotated = l.keys, make(map[K]*use), now
	}
	u := l.find(key, now)
	if u == nil {
		u = &use{ends: now.Add(l.window)}
	}
	l.keys[key] = u
	u.count++
	return u.count <= l.limit
}

// Remaining returns how long the window of a key that has reached the limit still lasts; 0 if the key has not reached it.
func (l *KeyLimit[K]) Remaining(key K) time.Duration {
	now := time.Now()
	if u := l.find(key, now); u != nil && u.count >= l.limit {
		return u.ends.Sub(now)
	}
	return 0
}

// find returns the use of a key whose window is open; nil if there is none.
func (l *KeyLimit[K]) find(key K, now time.Time) *use {
	u := l.keys[key]
	if u == nil {
		u = l.earlier[key]
	}
	if u == nil || !now.Before(u.ends) {
		return nil
	}
	return u
}
