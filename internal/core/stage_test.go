package core

import "testing"

func TestUnreadyStages(t *testing.T) {
	t.Parallel()
	ready := func(id, kind string) Service { return Service{ID: id, Type: kind, Status: ServiceReady} }
	broken := func(id, kind string) Service { return Service{ID: id, Type: kind, Status: ServiceError} }
	for _, c := range []struct {
		name     string
		services []Service
		marked   string
		want     Stages
	}{
		{"no services", nil, "", 0},
		{"all ready", []Service{ready("a", "asr"), ready("b", "semantic"), ready("c", "nmt"), ready("d", "tts")}, "", 0},
		{"one of each broken", []Service{broken("a", "asr"), broken("b", "semantic"), broken("c", "nmt"), broken("d", "tts")}, "", StageASR | StageSemantic | StageNMT | StageTTS},
		{"one of two ready", []Service{broken("a", "asr"), ready("b", "asr")}, "", 0},
		{"the ready one of two marked", []Service{broken("a", "asr"), ready("b", "asr")}, "b", StageASR},
		{"the broken one of two marked", []Service{broken("a", "asr"), ready("b", "asr")}, "a", 0},
		{"a mark on another", []Service{ready("a", "nmt")}, "z", 0},
		{"another version of the marked service", []Service{ready("a", "nmt"), {ID: "a", Version: "2", Type: "nmt", Status: ServiceReady}}, "a", StageNMT},
		{"types in capitals", []Service{broken("a", "ASR")}, "", StageASR},
		{"types that no job needs", []Service{broken("a", ""), broken("b", "tone"), broken("c", "whatever")}, "", 0},
	} {
		capability := Capability{Services: c.services}
		if got := capability.Unready(func(s *Service) bool { return s.ID == c.marked }); got != c.want {
			t.Errorf("%s: %04b, want %04b", c.name, got, c.want)
		}
	}
}

func TestReasonOfUnreadyStages(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		stages Stages
		tts    bool
		want   Reason
	}{
		{0, true, ReasonNone},
		{StageTTS, true, ReasonTTSNotReady},
		{StageTTS, false, ReasonNone},
		{StageNMT | StageTTS, true, ReasonNMTNotReady},
		{StageSemantic | StageNMT, false, ReasonSemanticNotReady},
		{StageASR | StageSemantic | StageNMT | StageTTS, true, ReasonASRNotReady},
	} {
		if got := c.stages.Reason(c.tts); got != c.want {
			t.Errorf("%04b with speech %v: %q, want %q", c.stages, c.tts, got, c.want)
		}
	}
}
