package server_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/lingua-scheduler/lingua/wire"
)

// TestSessionFilters selects sessions by name, language, connection and instance.
func TestSessionFilters(t *testing.T) {
	t.Parallel()
	ts := startSchedulerWithNamedKeys(t)
	for i, langs := range [][]string{{"en", "es"}, {"en", "zh"}, {"de", "fr"}} {
		ts.startSessionAs(ts.mint(acmeMint, fmt.Sprintf("room-%d", i)), object{"langs": langs})
	}
	_ = ts.startSessionAs(ts.mint(acmeMint, "hall"), nil).ws.CloseNow()
	ts.eventually("a session is not connected", func() bool {
		var l wire.SessionList
		ts.requestAs(alice, "GET", "/v1/sessions?connected=false", nil).decode(&l)
		return len(l.Sessions) == 1 && l.Sessions[0].SessionID == "hall"
	})
	var instances wire.InstanceList
	ts.requestAs(alice, "GET", "/v1/instances", nil).decode(&instances)
	for query, want := range map[string][]string{
		"search=room":                        {"room-0", "room-1", "room-2"},
		"search=oom":                         {"room-0", "room-1", "room-2"},
		"search=oops":                        nil,
		"language=EN":                        {"hall", "room-0", "room-1"},
		"language=fr&search=room-2":          {"room-2"},
		"connected=true":                     {"room-0", "room-1", "room-2"},
		"connected=true&language=en":         {"room-0", "room-1"},
		"instance=i-other":                   nil,
		"instance=&search=h":                 {"hall"},
		"search=room&limit=2&connected=true": {"room-0", "room-1"},
		"search=room&instance=" + instances.Instances[0].Incarnation: {"room-0", "room-1", "room-2"},
	} {
		var l wire.SessionList
		ts.requestAs(alice, "GET", "/v1/sessions?"+query, nil).decode(&l)
		var got []string
		for _, s := range l.Sessions {
			got = append(got, s.SessionID)
			if s.Remote != "127.0.0.1" || s.LastActiveMS < s.StartedMS || s.LagP95MS != nil {
				t.Errorf("%s: %+v", query, s)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
	}
	for _, query := range []string{"connected=yes", "connected=1", "language=%00", "search=a%20b", "instance=%2F", "speaking=true"} {
		ts.requestAs(alice, "GET", "/v1/sessions?"+query, nil).expectError(wire.InvalidRequest)
	}
}

// TestSessionActivity shows an utterance that is being received, and the lag of its result.
func TestSessionActivity(t *testing.T) {
	t.Parallel()
	ts := startSchedulerWithNamedKeys(t, fastAudio)
	n := ts.dialAs("/ws/node", acmeGPU, false)
	n.send(object{"type": "node_register", "node_id": "acme-1", "semantic_langs": []string{"en", "es"}, "max_concurrent_jobs": 1, "active": []object{}})
	n.readUntil("node_register_ack")
	s := ts.startSessionAs(ts.mint(acmeMint, "room-1"), nil)
	find := func(key string) (v wire.SessionInfo) {
		var l wire.SessionList
		ts.requestAs(key, "GET", "/v1/sessions", nil).decode(&l)
		if len(l.Sessions) == 1 {
			v = l.Sessions[0]
		}
		return v
	}
	s.sendBinary(noise(3200))
	ts.eventually("somebody speaks", func() bool { return find(alice).Speaking })
	s.send(object{"type": "audio_chunk", "is_final": true})
	job := n.readUntil("job_assign")
	n.send(object{"type": "job_ack", "job_id": job["job_id"], "attempt_id": job["attempt_id"]})
	n.send(object{"type": "job_result", "job_id": job["job_id"], "attempt_id": job["attempt_id"], "result": object{"text_tgt": "a"}})
	s.readUntil("result")
	v := find(acmeView)
	if v.Speaking || v.Remote == "" || v.LastResultLagMS == nil || v.LagP95MS == nil || v.LagStagesMS == nil {
		t.Fatalf("after a result: %+v", v)
	}
	l := v.LagStagesMS
	if sum := l.SegmentationMS + l.WaitMS + l.DispatchMS + l.NodeMS + l.ReturnMS; sum > *v.LastResultLagMS || sum < *v.LastResultLagMS-5 {
		t.Errorf("the parts %+v are not those of %d ms", *l, *v.LastResultLagMS)
	}
}
