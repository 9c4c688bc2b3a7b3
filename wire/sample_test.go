package wire

import (
	"encoding/json"
	"hash/fnv"
	"reflect"
	"strings"
	"testing"
)

// bodies lists every type that is sent or received as a whole, or is part of one.
var bodies = []any{
	ActiveAttempt{}, ActiveJob{}, Assignment{}, Attempt{}, CancelResponse{}, CapabilityByType{}, Declaration{}, DispatchOptions{},
	DispatchRequest{}, DispatchResponse{}, Error{}, ExplainNode{}, ExplainResponse{}, HealthResponse{}, HeartbeatRequest{},
	HeartbeatResponse{}, Job{}, JobAckRequest{}, JobDoneRequest{}, JobFailRequest{}, JobList{}, Load{},
	ModelNotAvailableRequest{}, Node{}, NodeList{}, OKResponse{}, Pool{}, PoolList{}, ReadyResponse{}, RegisterRequest{},
	RegisterResponse{}, Service{}, VersionResponse{},
	DeadLetter{}, DeadLetterList{}, DeadLettersRequest{}, DeadLettersResponse{}, Instance{}, InstanceList{},

	Audio{}, AudioAck{}, AudioChunk{}, AudioFormat{}, AudioGone{}, AudioSpan{}, BinaryHeader{}, Cancel{}, Drain{}, ErrorFrame{}, GoAway{}, JobAssign{},
	JobFail{}, JobPartial{}, MintRequest{}, MintResponse{}, JobReject{}, JobResult{}, JobResultAck{}, Latency{}, Limits{}, ModelNotAvailable{}, NodeHeartbeat{},
	NodeRegister{}, NodeRegisterAck{}, Partial{}, Result{}, ResultAck{}, Segmentation{}, SessionAudio{}, SessionEnded{}, SessionResume{}, SessionResumed{},
	SessionStart{}, SessionStarted{}, SessionUpdate{}, Usage{}, UtteranceCommitted{}, UtteranceStart{}, Warning{},
}

// requests are the bodies that one side takes from the other without knowing it.
var requests = []any{
	RegisterRequest{}, HeartbeatRequest{}, ModelNotAvailableRequest{}, DispatchRequest{},
	JobAckRequest{}, JobDoneRequest{}, JobFailRequest{}, Assignment{}, Error{},
}

// sample fills a value of a type: every field, or only those that are always sent. It goes by reflection, so
// that a field added later is in the samples, and so in the golden files, without anybody's thinking of it.
func sample(t *testing.T, typ reflect.Type, all bool) reflect.Value {
	t.Helper()
	v := reflect.New(typ).Elem()
	f := filler{t: t, all: all}
	f.fill(v, "", "")
	return v
}

// filler gives every field a value that comes from its Go name: two JSON names that were swapped show, and a
// new field leaves the values of the others alone.
type filler struct {
	t   *testing.T
	all bool
}

// number makes a number from 1 to 999 of a name.
func number(name string) int64 {
	h := fnv.New32a()
	h.Write([]byte(name))
	return 1 + int64(h.Sum32()%999)
}

func (f *filler) fill(v reflect.Value, name, enum string) {
	f.t.Helper()
	if v.Type() == reflect.TypeFor[json.RawMessage]() {
		v.SetBytes([]byte(`{"text_tgt":"hello"}`))
		return
	}
	if v.Type() == reflect.TypeFor[[]byte]() {
		v.SetBytes([]byte("sound"))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			field := v.Type().Field(i)
			key, options, _ := strings.Cut(field.Tag.Get("json"), ",")
			if key == "" && !field.Anonymous {
				f.t.Fatalf("%s.%s has no json name", v.Type(), field.Name)
			}
			if optional := strings.Contains(options, "omit"); f.all || !optional {
				f.fill(v.Field(i), field.Name, field.Tag.Get("enum"))
			}
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem(), name, enum)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			f.fill(v.Index(i), name, enum)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		one := reflect.New(v.Type().Elem()).Elem()
		f.fill(one, name, enum)
		v.SetMapIndex(reflect.ValueOf("FULL"), one)
	case reflect.String:
		text, _, _ := strings.Cut(enum, ",")
		if text == "" {
			text = name
		}
		v.SetString(text)
	case reflect.Bool:
		v.SetBool(true) // false would be left out where it may be
	case reflect.Int, reflect.Int64:
		v.SetInt(number(name))
	case reflect.Uint64:
		v.SetUint(uint64(number(name)))
	case reflect.Float64:
		v.SetFloat(float64(number(name)) / 1000)
	default:
		f.t.Fatalf("do not know how to fill a %s", v.Type())
	}
}
