package scheduler

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/redis/rueidis"
	"github.com/sony/gobreaker/v2"

	"github.com/lingua-scheduler/lingua/internal/server"
)

// troubles are what Redis says, by how it begins, when it is there and cannot serve.
var troubles = []struct {
	begins string
	means  server.Trouble
}{
	{"OOM", "the shared store is full and takes no writes"},
	{"READONLY", "the shared store is a replica and takes no writes"},
	{"NOREPLICAS", "the shared store has lost its replicas and takes no writes"},
	{"MISCONF", "the shared store cannot write to its disk and takes no writes"},
	{"LOADING", "the shared store is still reading its data"},
	{"CLUSTERDOWN", "the shared store is a cluster that is not whole"},
	{"MASTERDOWN", "the shared store is a replica that has lost its primary"},
	{"NOAUTH", "the shared store refuses this instance: its password is missing"},
	{"WRONGPASS", "the shared store refuses this instance: its user or password is wrong"},
	{"NOPERM", "the shared store refuses this instance: its user may not do what it has to"},
}

// doctor asks the store whether it serves, and knows what is wrong with one that does not.
type doctor struct {
	ping func(context.Context) error

	mu   sync.Mutex
	last server.Trouble // what Redis itself said; empty when it said nothing
}

// see asks. An error that is a server.Trouble is fit for anybody's ears.
func (d *doctor) see(ctx context.Context) error {
	err := d.ping(ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	// Between two tries nobody is asked: what was wrong still is.
	if !errors.Is(err, gobreaker.ErrOpenState) && !errors.Is(err, gobreaker.ErrTooManyRequests) {
		d.last = troubleOf(err)
	}
	if err != nil && d.last != "" {
		return d.last
	}
	return err
}

// troubleOf is what Redis said, if it said anything.
func troubleOf(err error) server.Trouble {
	var reply *rueidis.RedisError
	if !errors.As(err, &reply) {
		return ""
	}
	for _, t := range troubles {
		if strings.HasPrefix(reply.Error(), t.begins) {
			return t.means
		}
	}
	return ""
}
