package wire

import "encoding/json"

// InstanceList is the answer of GET /v1/instances.
type InstanceList struct {
	Instances []Instance `json:"instances"`
}

// Instance is one scheduler of those that share a fleet.
type Instance struct {
	InstanceID   string `json:"instance_id" doc:"Its name, the same after a restart if it was given one."`
	Incarnation  string `json:"incarnation" doc:"This life of it."`
	Present      bool   `json:"present" doc:"It has said so lately. One that is not has left something behind."`
	This         bool   `json:"this,omitempty" doc:"The one that answers."`
	Draining     bool   `json:"draining,omitempty"`
	AdvertiseURL string `json:"advertise_url,omitempty" doc:"Where the other instances and all nodes reach it."`
	Version      string `json:"version,omitempty"`
	StartedMS    int64  `json:"started_ms,omitempty" doc:"Unix milliseconds."`
	Nodes        int    `json:"nodes" doc:"Nodes that are connected with it."`
	Sessions     int    `json:"sessions"`
	Jobs         int    `json:"jobs" doc:"Jobs it sees through."`
	Inbox        int    `json:"inbox" doc:"Letters of others that wait there."`
	Unsettled    int    `json:"unsettled" doc:"Of these, letters it has fetched and not dealt with."`
	DeadLetters  int    `json:"dead_letters"`
}

// DeadLetterList is the answer of GET /v1/dlq.
type DeadLetterList struct {
	DeadLetters []DeadLetter `json:"dead_letters"`
	Total       int          `json:"total" doc:"How many there are, listed or not."`
}

// DeadLetter is what one instance had to tell another and nobody could make use of.
type DeadLetter struct {
	ID          string          `json:"id" doc:"The inbox it was in, a slash, and its number there."`
	Incarnation string          `json:"incarnation" doc:"Whose inbox it was in."`
	Kind        string          `json:"kind,omitempty" doc:"What it is about, if it can be read."`
	From        string          `json:"from,omitempty"`
	Reason      string          `json:"reason" enum:"NOT_UNDERSTOOD,FAILED"`
	Deliveries  int             `json:"deliveries" doc:"How often it was tried."`
	AgeMS       int64           `json:"age_ms"`
	Bytes       int             `json:"bytes"`
	Body        json.RawMessage `json:"body,omitempty" doc:"What it says, when one is asked for and it is JSON."`
	Text        string          `json:"text,omitempty" doc:"The same, when it is not."`
}

// DeadLettersRequest is the body of POST /v1/dlq/replay and /v1/dlq/purge.
type DeadLettersRequest struct {
	IDs []string `json:"ids,omitempty" doc:"Which ones."`
	All bool     `json:"all,omitempty" doc:"All there are, instead."`
}

// DeadLettersResponse is their answer.
type DeadLettersResponse struct {
	Done   []string          `json:"done"`
	Failed map[string]string `json:"failed,omitempty" doc:"What could not be done, and why."`
}
