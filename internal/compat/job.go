package compat

import "github.com/lingua-scheduler/lingua/wire"

// options are the options of a job or of a session. An unknown one is refused: a job that is done without a requirement is done wrongly.
type options struct {
	wire.DispatchOptions
	RequiredModelIDs []string `json:"required_model_ids"`
}

// UnmarshalJSON implements json.Unmarshaler.
func (o *options) UnmarshalJSON(body []byte) error {
	type plain options
	return wire.DecodeStrictly(body, (*plain)(o), "options", "it may be a requirement")
}

// translate returns the options of this protocol. Models may also be required beside the options.
func (o *options) translate(beside []string) wire.DispatchOptions {
	if models := len(o.RequiredModelIDs) + len(beside); models > 0 {
		o.RequiredModels = append(append(o.RequiredModels, o.RequiredModelIDs...), beside...)
	}
	return o.DispatchOptions
}

// DispatchRequest is the body of POST /v1/dispatch/f2f and of POST /v1/dispatch/explain.
type DispatchRequest struct {
	wire.DispatchRequest
	Options          options  `json:"options"`
	RequiredModelIDs []string `json:"required_model_ids"`
}

// Translate returns the request of this protocol.
func (r *DispatchRequest) Translate() *wire.DispatchRequest {
	r.DispatchRequest.Options = r.Options.translate(r.RequiredModelIDs)
	return &r.DispatchRequest
}

// SessionStart is the first message of a client.
type SessionStart struct {
	wire.SessionStart
	Options          options  `json:"options"`
	RequiredModelIDs []string `json:"required_model_ids"`
}

// Translate returns the message of this protocol.
func (s *SessionStart) Translate() *wire.SessionStart {
	s.SessionStart.Options = s.Options.translate(s.RequiredModelIDs)
	if len(s.Langs) == 0 && s.SrcLang != "" && s.TgtLang != "" {
		s.Langs = []string{s.SrcLang, s.TgtLang}
	}
	return &s.SessionStart
}

// SessionUpdate changes the settings of a session.
type SessionUpdate struct {
	wire.SessionUpdate
	Options *options `json:"options"`
}

// Translate returns the message of this protocol.
func (s *SessionUpdate) Translate() *wire.SessionUpdate {
	if s.Options != nil {
		s.SessionUpdate.Options = new(s.Options.translate(nil))
	}
	return &s.SessionUpdate
}
