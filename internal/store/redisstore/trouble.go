package redisstore

import (
	"fmt"
	"strings"

	"github.com/redis/rueidis"

	"github.com/lingua-scheduler/lingua/internal/store"
)

// troubles are the answers of a server that is there but cannot serve, by how they begin.
var troubles = []struct {
	begins string
	means  store.UnavailableError
}{
	{"LOADING", "the shared store is still reading its data"},
	{"READONLY", "the shared store is a replica and takes no writes"},
	{"OOM", "the shared store is full and takes no writes"},
	{"MISCONF", "the shared store cannot write to its disk and takes no writes"},
	{"CLUSTERDOWN", "the shared store is a cluster that is not whole"},
	{"MASTERDOWN", "the shared store is a replica that has lost its primary"},
	{"NOREPLICAS", "the shared store has lost its replicas and takes no writes"},
	{"TRYAGAIN", "the shared store is moving its data"},
	{"BUSY", "the shared store is busy with a script"},
	{"NOAUTH", "the shared store refuses this instance: its password is missing"},
	{"WRONGPASS", "the shared store refuses this instance: its user or password is wrong"},
	{"NOPERM", "the shared store refuses this instance: its user may not do what it has to"},
}

// troubled is such an answer, with what it means.
type troubled struct {
	error
	means store.UnavailableError
}

// Unwrap implements what errors.Is and errors.As look for.
func (t troubled) Unwrap() []error { return []error{t.error, t.means} }

// spoken turns an error of the client into one of the store. A reply of nothing is no error.
func spoken(err error) error {
	if err == nil || rueidis.IsRedisNil(err) {
		return nil
	}
	if reply, ok := rueidis.IsRedisErr(err); ok {
		for _, t := range troubles {
			if strings.HasPrefix(reply.Error(), t.begins) {
				return fmt.Errorf("%w: %w", store.ErrDown, troubled{err, t.means})
			}
		}
		return err
	}
	return fmt.Errorf("%w: %w", store.ErrDown, err)
}
