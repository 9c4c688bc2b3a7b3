package interop

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"
)

// variants are how audio is sent: a name for each utterance and binary frames, the same in text frames, and without names.
var variants = map[string]sessionScript{
	"named":   {Named: true},
	"chunks":  {Named: true, InChunks: true},
	"unnamed": {},
}

// utterances end in both ways. While one is spoken, the one before it is worked on.
var utterances = []utterance{{MS: 1200, End: "final"}, {MS: 2000, End: "final"}, {MS: 1200, End: "pause"}, {MS: 800, End: "final"}}

// startVariants starts a session of every kind.
func (f *fleet) startVariants() []*process {
	f.t.Helper()
	var sessions []*process
	for name, s := range variants {
		sessions = append(sessions, f.startSession(f.t, name, s))
	}
	return sessions
}

// midway waits until half of an utterance of the script was spoken.
func midway(p *process, utterance int) {
	p.t.Helper()
	p.await("midway", func(e event) bool { return e.Utterance == utterance })
}

// A connection is reset within a frame, once in each of three utterances.
func TestCutInMidAudio(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 2)
	f.startNode(0, nodeScript{WorkMS: 600})
	f.startNode(1, nodeScript{WorkMS: 600})
	for variant, s := range variants {
		for where, elsewhere := range map[string]bool{"same-instance": false, "another-instance": true} {
			t.Run(variant+"-"+where, func(t *testing.T) {
				t.Parallel()
				s := s
				proxies := []*proxy{startProxy(t, f.instances[0].address), startProxy(t, f.instances[1].address)}
				s.Addresses, s.Elsewhere = []string{proxies[0].address, proxies[1].address}, elsewhere
				session := f.startSession(t, variant+"-"+where, s)
				at := session.await("started", nil).Address
				for cut := range 3 {
					midway(session, cut)
					for _, p := range proxies {
						if p.address == at {
							p.cut()
						}
					}
					at = session.awaitNth("resumed", cut+1).Address
				}
				check(t, session, expectation{})
			})
		}
	}
}

func TestSessionInstanceKilled(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 2)
	f.startNode(0, nodeScript{WorkMS: 600})
	f.startNode(1, nodeScript{WorkMS: 600})
	sessions := f.startVariants()
	for _, p := range sessions {
		midway(p, 1)
	}
	f.instances[0].kill()
	for _, p := range sessions {
		check(t, p, expectation{})
	}
}

func TestSessionInstanceTerminated(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 2)
	f.startNode(0, nodeScript{WorkMS: 600})
	f.startNode(1, nodeScript{WorkMS: 600})
	sessions := f.startVariants()
	for _, p := range sessions {
		midway(p, 1)
	}
	f.terminate(f.instances[0])
	for _, p := range sessions {
		check(t, p, expectation{})
	}
	f.stopped(f.instances[0])
}

// The instance of a node goes away while the node works: the job stays the node's own, and its result goes to another instance.
func TestNodeInstanceKilled(t *testing.T) {
	t.Parallel()
	nodeInstanceGone(t, func(_ *fleet, i *instance) { i.kill() })
}

func TestNodeInstanceTerminated(t *testing.T) {
	t.Parallel()
	nodeInstanceGone(t, func(f *fleet, i *instance) {
		f.terminate(i)
		f.t.Cleanup(func() { f.stopped(i) })
	})
}

func nodeInstanceGone(t *testing.T, end func(*fleet, *instance)) {
	t.Helper()
	f := startFleet(t, 2)
	node := f.startNode(1, nodeScript{WorkMS: 1500})
	sessions := f.startVariants()
	assigned := node.await("assigned", nil)
	if !assigned.ByURL {
		t.Error("a node at another instance should fetch the audio there")
	}
	end(f, f.instances[1])
	node.await("registered", func(e event) bool { return e.Address == f.instances[0].address })
	node.await("done", func(e event) bool { return e.JobID == assigned.JobID && e.Accepted })
	for _, p := range sessions {
		check(t, p, expectation{})
	}
}

// A node confirms a job, goes on with its heartbeats, and never answers.
func TestSilentNode(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 2)
	silent := f.startNode(0, nodeScript{Silent: true})
	session := f.startSession(t, "session", variants["named"])
	silent.await("assigned", nil)
	f.startNode(0, nodeScript{WorkMS: 100})
	f.startNode(1, nodeScript{WorkMS: 100})
	check(t, session, expectation{})
}

// The process of a session stands still in mid-speech. One that sends what is due before it answers a ping is never cut;
// of one whose library answers by itself, an utterance may be, and its audio comes back as a further part. After 9 s the
// connection is closed, because a ping was not answered, and the utterance goes on after the resume.
func TestSessionStopped(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 2)
	f.startNode(0, nodeScript{WorkMS: 100})
	f.startNode(1, nodeScript{WorkMS: 100})
	for _, stall := range []time.Duration{1500 * time.Millisecond, 3 * time.Second, 9 * time.Second} {
		for variant, s := range variants {
			for pongs, unordered := range map[string]bool{"ordered": false, "unordered": true} {
				name := fmt.Sprintf("%s-%v-%s", variant, stall, pongs)
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					s := s
					s.UnorderedPongs = unordered
					session := f.startSession(t, name, s)
					midway(session, 1)
					session.stop(stall)
					unanswered := stall > 6*time.Second // pause_ms, and 5 s for the pong
					check(t, session, expectation{mayBeCut: unordered && !unanswered})
					if unanswered && session.count("resumed") == 0 {
						t.Error("the connection was not closed although a ping was not answered")
					}
				})
			}
		}
	}
}

// A page stalls in mid-speech while its browser answers pings, so the utterance ends; the rest of its audio is a further part.
func TestPageStalled(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 1)
	f.startNode(0, nodeScript{WorkMS: 100})
	for variant, s := range variants {
		t.Run(variant, func(t *testing.T) {
			t.Parallel()
			s.Utterances = slices.Clone(utterances)
			s.Utterances[1].StallMS = 2000
			check(t, f.startSession(t, variant, s), expectation{cut: 1})
		})
	}
}

// The process of a node stands still while it works, for less than anybody minds.
func TestNodeStoppedBriefly(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 2)
	node := f.startNode(0, nodeScript{WorkMS: 300})
	sessions := f.startVariants()
	node.await("assigned", nil)
	node.stop(3 * time.Second)
	for _, p := range sessions {
		check(t, p, expectation{})
	}
}

// The process of a node stands still until others have done its jobs. What it says afterwards changes nothing.
func TestNodeStopped(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 2)
	node := f.startNode(0, nodeScript{WorkMS: 300})
	session := f.startSession(t, "session", variants["named"])
	assigned := node.await("assigned", nil)
	node.halt()
	f.startNode(0, nodeScript{WorkMS: 100})
	f.startNode(1, nodeScript{WorkMS: 100})
	check(t, session, expectation{})
	node.resume()
	node.signal(syscall.SIGTERM)
	node.await("left", nil) // when the scheduler has answered for everything it had
	events, _ := node.all()
	for _, e := range events {
		if e.Event == "done" && e.JobID == assigned.JobID && e.Accepted {
			t.Errorf("the result of a job that another node has done was accepted: %s", e.line)
		}
	}
}

// A session that has dropped its audio says so, and the utterance ends at once; the conversation goes on.
func TestAudioGone(t *testing.T) {
	t.Parallel()
	f := startFleet(t, 2)
	f.startNode(0, nodeScript{WorkMS: 4000})
	s := variants["named"]
	s.Forgetful = true
	session := f.startSession(t, "forgetful", s)
	session.await("committed", nil)
	f.instances[0].kill()
	check(t, session, expectation{errors: map[int]string{0: "AUDIO_LOST"}, forgetful: true})
}
