package server

import (
	"slices"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/wire"
)

// resendAudio sends a node that has connected again the audio that its earlier connection may have lost: of every attempt
// it lists and holds, from the first chunk it does not report. Where the audio is not here the node was given an address
// for it.
func (s *Server) resendAudio(n *nodeLink, listed []wire.ActiveAttempt) {
	for _, a := range listed {
		job := core.JobID(a.JobID)
		r := dispatch.Report{Job: job, Holder: core.Holder{Attempt: a.AttemptID, Node: n.id, Epoch: n.life()}}
		if !s.Jobs.Holds(&r) {
			continue // it was given to another meanwhile, or has ended
		}
		if clip := s.NodeConns.sounds.Clip(job); clip != nil && a.AudioChunks < clip.Chunks() {
			n.conn.Feed(soundOf(a.ActiveJob, clip, a.AudioChunks))
		}
	}
}

// withoutAudio is the part of a node's list whose audio is not on this instance, without what it is to stop anyway.
func (s *Server) withoutAudio(listed []wire.ActiveAttempt, cancel []wire.ActiveJob) []wire.ActiveJob {
	var missing []wire.ActiveJob
	for _, a := range listed {
		if !slices.Contains(cancel, a.ActiveJob) && s.NodeConns.sounds.Clip(core.JobID(a.JobID)) == nil {
			missing = append(missing, a.ActiveJob)
		}
	}
	return missing
}
