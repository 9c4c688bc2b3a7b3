package core

import "testing"

func TestStageState(t *testing.T) {
	t.Parallel()
	langs := NewLangSet("en", "zh")
	service := func(id, kind string, status ServiceStatus) Service {
		return Service{ID: id, Type: kind, Status: status}
	}
	none := Stages(0)
	for name, c := range map[string]struct {
		capability       Capability
		installed, ready Stages
	}{
		"nothing declared":          {Capability{}, none, none},
		"built in":                  {Capability{Semantic: langs, AnyPair: true, TTS: langs}, StageASR | StageSemantic | StageNMT | StageTTS, StageASR | StageSemantic | StageNMT | StageTTS},
		"built in without speech":   {Capability{Semantic: langs, AnyPair: true}, StageASR | StageSemantic | StageNMT, StageASR | StageSemantic | StageNMT},
		"pairs":                     {Capability{Pairs: []Direction{{"en", "zh"}}}, StageNMT, StageNMT},
		"built in and not running":  {Capability{Semantic: langs, Types: ServiceTypes{ASR: No, Semantic: Yes}}, StageSemantic, StageSemantic},
		"a service that is ready":   {Capability{Services: []Service{service("t", "tts", ServiceReady)}}, StageTTS, StageTTS},
		"a service that is stopped": {Capability{TTS: langs, Services: []Service{service("t", "tts", ServiceStopped)}}, StageTTS, none},
		"a service that is marked":  {Capability{Services: []Service{service("marked", "tts", ServiceReady)}}, StageTTS, none},
		"installed and not running": {Capability{Services: []Service{service("a", "asr", ServiceReady)}, Types: ServiceTypes{ASR: No}}, StageASR, none},
	} {
		installed, ready := c.capability.StageState(func(s *Service) bool { return s.ID == "marked" })
		if installed != c.installed || ready != c.ready {
			t.Errorf("%s: installed %04b ready %04b, want %04b and %04b", name, installed, ready, c.installed, c.ready)
		}
	}
}
