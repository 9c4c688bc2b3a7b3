package node

import (
	"strconv"

	"github.com/lingua-scheduler/lingua/wire"
)

const (
	// mostKept is how large the outcomes may be that wait for their acknowledgement before no further job is taken. What
	// runs then may still add to them.
	mostKept = 64 << 20
	// mostSpeech bounds the spoken result of one job, as maxAudio does what was said.
	mostSpeech = maxAudio
	// outcomeSize is what an outcome takes beside what it says.
	outcomeSize = 1 << 10
	// mostListed is how long the list of jobs may be: it goes in one message with what the node declares.
	mostListed = wire.MaxFrame - mostDeclared
	// mostDeclared is how long a declaration may be.
	mostDeclared = wire.MaxFrame / 4
	// listingSize is what a job takes in the list beside its name and the number of its attempt, at most.
	listingSize = len(`{"job_id":"","attempt_id":,"audio_chunks":99999},`)
	// mostReported is how many chunks of audio are reported at most: to report fewer than have come only has them sent again.
	mostReported = 99_999
)

// full reports that there is no room for a further job: no slot, or too many outcomes that nobody acknowledges, or a list
// too long to be sent; the node is locked.
func (n *Node) full(job wire.ActiveJob) bool {
	return n.running >= *n.declared.MaxConcurrentJobs || n.kept >= n.pace.kept || n.listed+listing(job) > mostListed
}

// listing is how long a job's place in the list is. A name that is not as names should be may have to be escaped.
func listing(job wire.ActiveJob) int {
	size := listingSize + len(strconv.Itoa(job.AttemptID))
	if idPattern.MatchString(job.JobID) {
		return size + len(job.JobID)
	}
	return size + 6*len(job.JobID)
}

// size is what it takes to keep an outcome; nothing if there is none.
func (o *outcome) size() int {
	size := 0
	if o.speech != nil {
		size = o.speech.size
	}
	for _, f := range o.frames {
		size += outcomeSize
		if r, ok := f.(wire.JobResult); ok {
			size += len(r.Result)
		}
	}
	return size
}
