package redisstore

import (
	"errors"
	"fmt"
	"strings"

	"github.com/redis/rueidis"

	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// health tracks whether Redis answers and accepts writes. A full one, or a replica, still answers reads.
type health struct {
	onChange func(up bool)

	mu           run.Mutex
	unreachable  bool // the breaker is open
	readOnly     bool // it refuses writes
	reportedDown bool // the last value passed to onChange was false
}

// set changes unreachable or readOnly, and calls onChange if Redis becomes available or unavailable by it.
func (h *health) set(condition *bool, value bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	*condition = value
	if down := h.unreachable || h.readOnly; down != h.reportedDown {
		h.reportedDown = down
		h.onChange(!down)
	}
}

// wrote records that a write succeeded.
func (h *health) wrote() {
	h.mu.Lock()
	readOnly := h.readOnly
	h.mu.Unlock()
	if readOnly {
		h.set(&h.readOnly, false)
	}
}

// refusesWrites reports whether an error comes from a server that answers reads and refuses writes.
func refusesWrites(err error) bool {
	var reply *rueidis.RedisError
	if !errors.As(err, &reply) {
		return false
	}
	for _, code := range []string{"OOM", "READONLY", "MISCONF", "NOREPLICAS"} {
		if strings.HasPrefix(reply.Error(), code) {
			return true
		}
	}
	return false
}

// unavailableReplies are the error replies of a server that answers but cannot serve, by their codes.
var unavailableReplies = []struct {
	code    string
	class   store.ErrorClass
	meaning store.UnavailableError
}{
	{"LOADING", store.ErrorLoading, "the shared store is still loading its data"},
	{"READONLY", store.ErrorReadOnly, "the shared store is a replica and takes no writes"},
	{"OOM", store.ErrorFull, "the shared store is full and takes no writes"},
	{"MISCONF", store.ErrorReadOnly, "the shared store cannot write to its disk and takes no writes"},
	{"CLUSTERDOWN", store.ErrorCluster, "the shared store is a cluster without all its slots"},
	{"MASTERDOWN", store.ErrorReadOnly, "the shared store is a replica that has lost its primary"},
	{"NOREPLICAS", store.ErrorReadOnly, "the shared store has lost its replicas and takes no writes"},
	{"TRYAGAIN", store.ErrorCluster, "the shared store is moving its data"},
	{"BUSY", store.ErrorBusy, "the shared store is busy with a script"},
	{"NOAUTH", store.ErrorAuth, "the shared store refuses this instance: its password is missing"},
	{"WRONGPASS", store.ErrorAuth, "the shared store refuses this instance: its user or password is wrong"},
	{"NOPERM", store.ErrorAuth, "the shared store refuses this instance: its user lacks permissions"},
}

// unavailableReplyError is such an error reply, with its meaning.
type unavailableReplyError struct {
	error
	meaning store.UnavailableError
}

// Unwrap lets errors.Is and errors.As find both.
func (e unavailableReplyError) Unwrap() []error { return []error{e.error, e.meaning} }

// convertError converts an error of rueidis to one of the store. A nil reply is no error.
func convertError(err error) error {
	if err == nil || rueidis.IsRedisNil(err) {
		return nil
	}
	if reply, ok := rueidis.IsRedisErr(err); ok {
		for _, u := range unavailableReplies {
			if strings.HasPrefix(reply.Error(), u.code) {
				return fmt.Errorf("%w: %w", store.ErrDown, unavailableReplyError{err, u.meaning})
			}
		}
		return err
	}
	return fmt.Errorf("%w: %w", store.ErrDown, err)
}
