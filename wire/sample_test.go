package wire

import (
	"encoding/json"
	"hash/fnv"
	"reflect"
	"strings"
	"testing"
)

// bodies lists every type with JSON fields.
var bodies = []any{
	ActiveAttempt{}, ActiveJob{}, Admission{}, Assignment{}, Attempt{}, CancelResponse{}, CapabilityByType{}, Declaration{}, DispatchOptions{},
	DispatchRequest{}, DispatchResponse{}, Error{}, CatalogService{}, ExplainNode{}, ExplainResponse{}, ExplainService{}, HealthResponse{}, HeartbeatRequest{},
	HeartbeatResponse{}, Job{}, JobDetail{}, JobDecisions{}, Decision{}, Candidate{}, JobAckRequest{}, JobDoneRequest{}, JobFailRequest{}, JobList{}, Load{},
	ModelNotAvailableRequest{}, Node{}, NodeCapabilities{}, NodeList{}, NodeRemoved{}, RefusedNode{}, RefusedNodeList{}, AuditEntry{}, AuditList{}, Event{}, EventList{}, OKResponse{}, Direction{}, DirectionList{}, ReadyResponse{}, RegisterRequest{},
	RegisterResponse{}, Service{}, VersionResponse{},
	Revocation{}, RevocationList{}, RevocationRequest{}, SessionInfo{}, SessionLag{}, SessionList{}, SessionTerminated{}, ReloadResponse{}, LoginRequest{}, LogoutResponse{}, Caller{},
	ConfigView{}, ConfigSetting{}, ConfigKey{}, ConfigSigner{}, CallerContext{}, Link{}, CoverGroup{}, DeadLetter{}, DeadLetterList{}, DeadLettersRequest{}, DeadLettersResponse{}, Instance{}, InstanceList{},
	ClusterSeries{}, ClusterPoint{}, LiveOverview{}, LiveStatus{}, NodeSeries{}, NodePoint{}, Stats{}, StatsAge{}, StatsCompute{}, StatsCoverage{}, StatsInstances{}, StatsJobs{}, StatsLanguages{},
	StatsNodes{}, StatsOutcomes{}, StatsStore{}, StatsUse{}, NodeTable{}, NodeRow{}, DrainEffect{}, NodeDetail{}, DirectionName{}, ServiceMark{}, ClusterLag{}, LagStages{}, Quantiles{},
	ProbeRequest{}, ProbeResult{}, StoreStatus{}, StoreLatency{}, StoreServer{}, TenantList{}, TenantInfo{}, TenantUse{}, TenantRate{}, JobFilter{}, JobsCancelRequest{}, JobsCancelResponse{}, NodeFilter{}, NodesDrainRequest{}, NodesDrainResponse{},
	Metrics{}, MetricsCatalog{}, MetricsCount{}, MetricsDispatch{}, MetricsDispatchExclude{}, MetricsExclusion{}, MetricsHubDown{}, MetricsModelNA{}, MetricsOutcome{},
	MetricsSegmentation{}, MetricsSlow{}, MetricsStats{}, MetricsWait{},
	DirectionCoverage{}, DirectionUse{}, ModelUse{}, ServiceUse{},
	PoolOverview{}, Pool{}, PoolNodes{}, PoolSlots{}, PoolCoreServices{}, StageCount{}, PoolNode{}, WithoutPool{}, NodeWithoutPool{}, PoolGap{}, ExplainPool{},
	WaitingList{}, WaitingRequirements{}, WaitingRequest{}, WaitingPool{}, WaitingClass{}, WaitingTenant{}, WaitingShare{}, ExplainWait{},

	Audio{}, AudioAck{}, AudioChunk{}, AudioFormat{}, AudioGone{}, AudioSpan{}, BinaryHeader{}, SessionCancel{}, Drain{}, ErrorFrame{}, GoAway{}, JobAssign{},
	JobFail{}, JobPartial{}, SessionTokenRequest{}, SessionTokenResponse{}, JobReject{}, JobResult{}, JobResultAck{}, SessionLatency{}, SessionLimits{}, ModelNotAvailable{}, NodeHeartbeat{},
	NodeRegister{}, NodeRegisterAck{}, SessionPartial{}, SessionWaiting{}, SessionResult{}, SessionResultAck{}, SessionSegmentation{}, SessionAudio{}, SessionEnded{}, SessionResume{}, SessionResumed{},
	SessionStart{}, SessionStarted{}, SessionUpdate{}, SessionUsage{}, UtteranceCommitted{}, UtteranceStart{}, Warning{},
}

// frames lists every text frame.
var frames = []Frame{
	NodeRegister{}, NodeRegisterAck{}, NodeHeartbeat{}, NodeLeave{}, JobAssign{}, JobAck{}, JobReject{}, JobPartial{}, JobResult{}, JobFail{}, JobResultAck{},
	JobCancel{}, JobCancelled{}, ModelNotAvailable{}, Drain{},
	SessionStart{}, SessionStarted{}, SessionResume{}, SessionResumed{}, UtteranceStart{}, AudioChunk{}, AudioAck{}, AudioGone{}, UtteranceCommitted{},
	SessionPartial{}, SessionWaiting{}, SessionResult{}, SessionResultAck{}, SessionUpdate{}, SessionCancel{}, Keepalive{}, SessionEnd{}, SessionEnded{},
	GoAway{}, Warning{}, ErrorFrame{},
}

// requests lists the bodies that are decoded from an untrusted peer.
var requests = []any{
	RegisterRequest{}, HeartbeatRequest{}, ModelNotAvailableRequest{}, DispatchRequest{},
	JobAckRequest{}, JobDoneRequest{}, JobFailRequest{}, Assignment{}, Error{},
}

// sample returns a value of a type with every field set, or only those that are never omitted. It uses reflection, so that
// a field added later is in the samples and in the golden files.
func sample(t *testing.T, typ reflect.Type, all bool) reflect.Value {
	t.Helper()
	v := reflect.New(typ).Elem()
	f := filler{t: t, all: all}
	f.fill(v, "", "")
	return v
}

// filler gives every field a value derived from its Go name, so that swapped JSON names show, and a new field does not
// change the values of the others.
type filler struct {
	t   *testing.T
	all bool
}

// number hashes a name to a number from 1 to 999.
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
		v.SetBytes([]byte("audio"))
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
		value := reflect.New(v.Type().Elem()).Elem()
		f.fill(value, name, enum)
		v.SetMapIndex(reflect.ValueOf("FULL"), value)
	case reflect.String:
		text, _, _ := strings.Cut(enum, ",")
		if text == "" {
			text = name
		}
		v.SetString(text)
	case reflect.Bool:
		v.SetBool(true) // omitempty omits false
	case reflect.Int, reflect.Int64:
		v.SetInt(number(name))
	case reflect.Uint64:
		v.SetUint(uint64(number(name)))
	case reflect.Float64:
		v.SetFloat(float64(number(name)) / 1000)
	default:
		f.t.Fatalf("no sample for a field of type %s", v.Type())
	}
}
