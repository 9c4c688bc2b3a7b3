package core

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/wire"
)

// TestOptionsForNode: a node receives every option but those that only the scheduler reads.
func TestOptionsForNode(t *testing.T) {
	t.Parallel()
	var all Options
	fields := leaves(reflect.ValueOf(&all).Elem(), "")
	for name := range fields {
		alter(t, fields[name])
	}
	want := wire.DispatchOptions(all)
	want.PreferredNodeID, want.Strict, want.MaxWaitMS = nil, false, nil
	if diff := cmp.Diff(want, all.ForNode()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if all.PreferredNodeID == nil || !all.Strict {
		t.Error("the options of the job have changed")
	}
}

// TestStoredNames: what the options are called in a store must not change.
func TestStoredNames(t *testing.T) {
	t.Parallel()
	const preferred, stored = "node-1", `{"RequireTTS":true,"PreferredNode":"node-1","MaxWaitMS":0}`
	want := Options{RequireTTS: true, PreferredNodeID: new(preferred), MaxWaitMS: new(int64)}
	text, err := json.Marshal(want)
	if string(text) != stored || err != nil {
		t.Errorf("%s, %v; want %s", text, err, stored)
	}
	var got Options
	if err := json.Unmarshal([]byte(stored), &got); err != nil || got.Preferred() != preferred || !cmp.Equal(want, got) {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	if err := json.Unmarshal([]byte(`{"PreferredNode":""}`), &got); err != nil || got.Preferred() != "" || got.PreferredNodeID != nil {
		t.Errorf("%v, %v; want no preferred node", got.PreferredNodeID, err)
	}
}
