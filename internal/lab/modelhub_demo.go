package lab

import "github.com/lingua-scheduler/lingua/internal/health"

// DemoServices are the services of the stand-in, unless others are given. The nodes of the demo have them.
func DemoServices() []health.HubService {
	return []health.HubService{
		{ServiceID: "asr-multi", Name: "Speech recognition, 7 languages", Type: "asr", Versions: []string{"2.1", "2.0"}},
		{ServiceID: "nmt-multi", Name: "Translation, 42 directions", Type: "nmt", Versions: []string{"3.2", "3.1"}},
		{ServiceID: "repair-multi", Name: "Semantic repair", Type: "semantic", Versions: []string{"1.4"}},
		{ServiceID: "tts-multi", Name: "Speech synthesis, 7 voices", Type: "tts", Versions: []string{"1.9", "1.8"}},
	}
}
