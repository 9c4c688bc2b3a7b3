package compat

import (
	"encoding/json"
	"reflect"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/wire"
)

// types is the field capability_by_type.
type types struct {
	ASR      *flag `json:"asr"`
	NMT      *flag `json:"nmt"`
	TTS      *flag `json:"tts"`
	Tone     *flag `json:"tone"`
	Semantic *flag `json:"semantic"`
}

// flag is true or false, which may be in quotes.
type flag bool

// UnmarshalJSON implements json.Unmarshaler.
func (f *flag) UnmarshalJSON(text []byte) error {
	switch string(text) {
	case "true", `"true"`:
		*f = true
	case "false", `"false"`:
		*f = false
	case "null":
	default:
		return &json.UnmarshalTypeError{Value: string(text[:min(len(text), 16)]), Type: reflect.TypeFor[bool]()}
	}
	return nil
}

func (f *flag) value() *bool { return (*bool)(f) }

// service is an installed service: its id, or an object. Without a status it is ready.
type service wire.Service

// UnmarshalJSON implements json.Unmarshaler.
func (s *service) UnmarshalJSON(text []byte) error {
	s.Status = core.ServiceReady.String()
	if len(text) > 0 && text[0] == '"' {
		return json.Unmarshal(text, &s.ServiceID)
	}
	return json.Unmarshal(text, (*wire.Service)(s))
}
