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
}

// first reports whether a piece comes for the first time. A higher attempt begins anew, and voids those before it.
func (v *voices) first(h *wire.BinaryHeader) bool {
	i := slices.IndexFunc(*v, func(known voice) bool { return known.job == h.JobID })
	if i < 0 {
		if len(*v) == mostVoices {
			*v = slices.Delete(*v, 0, 1)
		}
		*v = append(*v, voice{job: h.JobID, attempt: h.AttemptID})
		i = len(*v) - 1
	}
	known := &(*v)[i]
	if h.AttemptID > known.attempt {
		known.attempt, known.next = h.AttemptID, 0
	}
	if h.AttemptID < known.attempt || h.Chunk < known.next {
		return false
	}
	known.next = h.Chunk + 1
	return true
}
