package redisstore

import (
	"fmt"
	"strings"

	"github.com/redis/rueidis"

	"github.com/lingua-scheduler/lingua/internal/store"
)

// unable begin the answers of a server that is there but cannot serve: it is loading, full, a replica, cut off from
// its cluster or its replicas, or busy with a script.
var unable = []string{
	"LOADING", "READONLY", "OOM", "MISCONF", "CLUSTERDOWN", "MASTERDOWN", "NOREPLICAS", "TRYAGAIN", "BUSY",
	"NOAUTH", "WRONGPASS", "NOPERM",
}

// spoken turns an error of the client into one of the store. A reply of nothing is no error.
func spoken(err error) error {
	if err == nil || rueidis.IsRedisNil(err) {
		return nil
	}
	if reply, ok := rueidis.IsRedisErr(err); ok {
		for _, word := range unable {
			if strings.HasPrefix(reply.Error(), word) {
				return fmt.Errorf("%w: %w", store.ErrDown, err)
			}
		}
		return err
	}
	return fmt.Errorf("%w: %w", store.ErrDown, err)
}
