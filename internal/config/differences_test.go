package config

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestDifferences: a change of each key is reported as that key, and as no other.
func TestDifferences(t *testing.T) {
	t.Parallel()
	base := Default()
	if got := Differences(&base, &base); len(got) != 0 {
		t.Errorf("a configuration differs from itself in %q", got)
	}
	names := Default()
	for i, setting := range listSettings(&names) {
		changed := Default()
		switch at := listSettings(&changed)[i].field; at.Kind() {
		case reflect.String:
			at.SetString(at.String() + "x")
		case reflect.Bool:
			at.SetBool(!at.Bool())
		case reflect.Float64:
			at.SetFloat(at.Float() + 1)
		case reflect.Pointer:
			at.Set(reflect.New(at.Type().Elem()))
		case reflect.Slice:
			at.Set(reflect.ValueOf([]string{"x"}))
		default:
			at.SetInt(at.Int() + 1)
		}
		if diff := cmp.Diff([]string{setting.key}, Differences(&base, &changed)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", setting.key, diff)
		}
		copied := Default()
		Overwrite(&copied, &changed, func(key string) bool { return key != setting.key })
		if diff := Differences(&base, &copied); diff != nil {
			t.Errorf("%s was copied with the others: %v", setting.key, diff)
		}
		Overwrite(&copied, &changed, func(key string) bool { return key == setting.key })
		if diff := Differences(&changed, &copied); diff != nil {
			t.Errorf("%s was not copied: %v", setting.key, diff)
		}
	}
	changed := Default()
	changed.Auth.Keys, changed.Auth.Signers = []Key{{Name: "a"}}, []Signer{{KID: "a"}}
	if diff := cmp.Diff([]string{"auth.keys", "auth.signers"}, Differences(&base, &changed)); diff != "" {
		t.Error(diff)
	}
}
