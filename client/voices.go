package client

import (
	"slices"

	"github.com/lingua-scheduler/lingua/wire"
)

// mostVoices is of how many spoken results it is remembered what came: more than are spoken at once, and than a resumption
// may begin anew.
const mostVoices = 64

// voices knows which pieces of the latest spoken results came.
type voices []voice

// voice is one of them.
type voice struct {
	job     string
	attempt int
	next    int // piece
	format  wire.AudioFormat
}

// of is what is known of a job's speech. The oldest is forgotten where there is no room for it.
func (v *voices) of(job string, attempt int) *voice {
	i := slices.IndexFunc(*v, func(known voice) bool { return known.job == job })
	if i < 0 {
		if len(*v) == mostVoices {
			*v = slices.Delete(*v, 0, 1)
		}
		*v = append(*v, voice{job: job, attempt: attempt, format: wire.AudioFormat{}.OrDefault()})
		i = len(*v) - 1
	}
	known := &(*v)[i]
	if attempt > known.attempt {
		*known = voice{job: job, attempt: attempt, format: wire.AudioFormat{}.OrDefault()}
	}
	return known
}

// announced takes in the format of speech that follows a result. Its first piece may be lost.
func (v *voices) announced(r *wire.SessionResult) {
	if r.TTSAudio == nil {
		return
	}
	if known := v.of(r.JobID, r.AttemptID); known.attempt == r.AttemptID && known.next == 0 {
		known.format = r.TTSAudio.OrDefault()
	}
}

// first reports whether a piece comes for the first time, and the format of the speech it is of. A higher attempt begins anew,
// and voids those before it.
func (v *voices) first(h *wire.BinaryHeader) (wire.AudioFormat, bool) {
	known := v.of(h.JobID, h.AttemptID)
	if h.AttemptID < known.attempt || h.Chunk < known.next {
		return known.format, false
	}
	if h.Chunk == 0 && h.Audio != nil {
		known.format = h.Audio.OrDefault()
	}
	known.next = h.Chunk + 1
	return known.format, true
}
