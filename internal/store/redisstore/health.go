package redisstore

import (
	"errors"
	"strings"
	"sync"

	"github.com/redis/rueidis"
)

// health is whether Redis serves: it answers, and it takes writes. A full one, or a replica, answers every read.
type health struct {
	notice func(up bool)

	mu     sync.Mutex
	cut    bool // nothing comes back
	barred bool // writes are refused
	told   bool // that it does not serve
}

// set notes one of the two and tells when that makes a difference.
func (h *health) set(what *bool, bad bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	*what = bad
	if down := h.cut || h.barred; down != h.told {
		h.told = down
		h.notice(!down)
	}
}

// wrote notes that a write was carried out.
func (h *health) wrote() {
	h.mu.Lock()
	barred := h.barred
	h.mu.Unlock()
	if barred {
		h.set(&h.barred, false)
	}
}

// unwritable reports whether a write was refused by a server that still answers reads.
func unwritable(err error) bool {
	var reply *rueidis.RedisError
	if !errors.As(err, &reply) {
		return false
	}
	for _, word := range []string{"OOM", "READONLY", "MISCONF", "NOREPLICAS"} {
		if strings.HasPrefix(reply.Error(), word) {
			return true
		}
	}
	return false
}
