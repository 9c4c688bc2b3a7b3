package redisstore_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/redisstore"
	"github.com/lingua-scheduler/lingua/test/redistest"
)

// TestNoDigestIsLeft: a node that is removed while another instance records that it was seen is in the list with its digest, or neither is there. What is
// in the list is removed by the next sweep; a digest alone would stay for ever.
func TestNoDigestIsLeft(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var prefix string
	a := open(t, server.URL(), func(o *redisstore.Options) { prefix = o.Prefix })
	b := open(t, server.URL(), func(o *redisstore.Options) { o.Prefix = prefix })
	var nodes sync.WaitGroup
	for i := range 300 {
		id := core.NodeID(fmt.Sprint("node-", i))
		register := func(s *redisstore.Store) {
			if _, err := s.Register(t.Context(), store.RegisterParams{Node: declaredNode(id, 1), Load: core.UnknownLoad}); err != nil {
				t.Error(err)
			}
		}
		nodes.Go(func() {
			register(a)
			var both sync.WaitGroup
			both.Go(func() { register(b) })
			if _, err := a.Remove(t.Context(), store.RemoveParams{Node: id}); err != nil {
				t.Error(err)
			}
			both.Wait()
		})
	}
	nodes.Wait()
	keys, err := server.Do("KEYS", prefix+":v1:nodes:digests:*")
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys.([]any) {
		list, err := server.Do("EVAL", `
			local alone = {}
			for _, node in ipairs(redis.call('HKEYS', KEYS[1])) do
				if not redis.call('ZSCORE', string.match(KEYS[1], '{(.*)}'), node) then alone[#alone + 1] = node end
			end
			return alone`, "1", key.(string))
		if err != nil {
			t.Fatal(err)
		}
		if alone := list.([]any); len(alone) > 0 {
			t.Errorf("%v has digests of %v, which are not in the list", key, alone)
		}
	}
}
