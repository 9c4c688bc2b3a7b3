package wire

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// listFields returns the list fields of a declaration by their JSON names.
func listFields(d *Declaration) map[string]reflect.Value {
	found := make(map[string]reflect.Value)
	v := reflect.ValueOf(d).Elem()
	for i := range v.NumField() {
		if v.Field(i).Kind() == reflect.Slice {
			key, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			found[key] = v.Field(i)
		}
	}
	return found
}

// In a heartbeat an absent list is unchanged and an empty one clears it. For the field active the difference decides
// whether the jobs of a node are kept or moved.
func TestAbsentListDiffersFromEmptyList(t *testing.T) {
	t.Parallel()
	for key := range listFields(&Declaration{}) {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			var empty Declaration
			field := listFields(&empty)[key]
			field.Set(reflect.MakeSlice(field.Type(), 0, 0))

			for _, c := range []struct {
				name, json string
				d          Declaration
			}{
				{"absent", `{}`, Declaration{}},
				{"empty", `{"` + key + `":[]}`, empty},
			} {
				body, err := json.Marshal(c.d)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(c.json, string(body)); diff != "" {
					t.Errorf("%s: written (-want +got):\n%s", c.name, diff)
				}
				// Decode it as a part of a heartbeat, as the scheduler does.
				var back HeartbeatRequest
				if err := Decode(body, &back); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(c.d, back.Declaration); diff != "" { // cmp distinguishes nil from empty
					t.Errorf("%s: read (-want +got):\n%s", c.name, diff)
				}
			}

			// Some JSON libraries encode a missing list as null.
			var null HeartbeatRequest
			if err := Decode([]byte(`{"`+key+`":null}`), &null); err != nil {
				t.Fatal(err)
			}
			if !listFields(&null.Declaration)[key].IsNil() {
				t.Error("null is read as a list, want it absent")
			}
		})
	}
}

// A node may set its maximum to 0 or remove its callback, so zero values must not be omitted.
func TestZeroValuesAreEncoded(t *testing.T) {
	t.Parallel()
	zero, none, off, idle := 0, "", false, 0.0
	d := Declaration{
		MaxConcurrentJobs: &zero, CurrentJobs: &zero, Region: &none, Zone: &none, TenantID: &none, CallbackURL: &none,
		CapabilityByType: &CapabilityByType{ASR: &off}, CurrentLoad: &Load{CPU: &idle},
	}
	body, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"capability_by_type":{"asr":false},"max_concurrent_jobs":0,"current_jobs":0,"current_load":{"cpu":0},` +
		`"region":"","zone":"","tenant_id":"","callback_url":""}`
	if diff := cmp.Diff(want, string(body)); diff != "" {
		t.Errorf("written (-want +got):\n%s", diff)
	}
	var back RegisterRequest
	if err := Decode(body, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(d, back.Declaration); diff != "" {
		t.Errorf("read (-want +got):\n%s", diff)
	}
}
