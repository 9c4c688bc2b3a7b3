package interop

// event is a line that a program printed; js/run-session.js and js/run-node.js show which fields belong to which event.
type event struct {
	Event   string `json:"event"`
	AtMS    int64  `json:"at_ms"` // since the program started
	Address string `json:"address"`
	Error   string `json:"error"`

	// Fields of a session.
	Limits struct {
		ResultTimeoutMS int64 `json:"result_timeout_ms"`
	} `json:"limits"`
	Recovered    bool    `json:"recovered"`
	NextAudioSeq int     `json:"next_audio_seq"`
	Utterance    int     `json:"utterance"` // of the script
	UtteranceID  string  `json:"utterance_id"`
	Index        int     `json:"utterance_index"`
	Continues    *int    `json:"continues"`
	FirstSeq     int     `json:"first_seq"`
	LastSeq      int     `json:"last_seq"`
	Type         string  `json:"type"`
	Seq          int     `json:"seq"`
	Sent         *digest `json:"sent"`
	Got          *digest `json:"got"`
	Repeated     bool    `json:"repeated"`
	TookMS       *int64  `json:"took_ms"` // from the commit or the last resume
	Utterances   int     `json:"utterances"`

	// Fields of a node.
	JobID    string `json:"job_id"`
	ByURL    bool   `json:"by_url"`
	Accepted bool   `json:"accepted"`

	line string
}

// digest identifies audio.
type digest struct {
	SHA256 string `json:"sha256"`
	Bytes  int    `json:"bytes"`
	Via    string `json:"via"`     // how the node got it: frames or url
	NodeID string `json:"node_id"` // which node
}

func (d *digest) equal(other *digest) bool {
	return d != nil && other != nil && d.SHA256 == other.SHA256 && d.Bytes == other.Bytes
}
