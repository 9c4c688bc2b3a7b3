package interop

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/test/clustertest"
)

// variants are the ways to send audio: binary frames with a name for each utterance, text frames with names, and binary
// frames without.
var variants = map[string]sessionScript{
	"named":   {Named: true},
	"chunks":  {Named: true, InChunks: true},
	"unnamed": {},
}

// utterances end in both ways. While one is sent, the node works on the one before it.
var utterances = []utterance{{MS: 1200, End: "final"}, {MS: 2000, End: "final"}, {MS: 1200, End: "pause"}, {MS: 800, End: "final"}}

// startVariants starts a session of each variant.
func (c *testCluster) startVariants() []*program {
	c.t.Helper()
	var sessions []*program
	for name, s := range variants {
		sessions = append(sessions, c.startSession(c.t, name, s))
	}
	return sessions
}

// waitMidway waits until half of an utterance was sent.
func waitMidway(p *program, utterance int) {
	p.t.Helper()
	p.waitEvent("midway", func(e event) bool { return e.Utterance == utterance })
}

// A connection is reset within a frame, once in each of three utterances.
func TestConnectionCutDuringAudio(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 2)
	c.startNode(0, nodeScript{WorkMS: 600})
	c.startNode(1, nodeScript{WorkMS: 600})
	for variant, s := range variants {
		for where, otherInstance := range map[string]bool{"same-instance": false, "another-instance": true} {
			t.Run(variant+"-"+where, func(t *testing.T) {
				t.Parallel()
				s := s
				proxies := []*proxy{startProxy(t, c.instances[0].Addr()), startProxy(t, c.instances[1].Addr())}
				s.Addresses, s.OtherInstance = []string{proxies[0].address, proxies[1].address}, otherInstance
				session := c.startSession(t, variant+"-"+where, s)
				at := session.waitEvent("started", nil).Address
				for cut := range 3 {
					waitMidway(session, cut)
					for _, p := range proxies {
						if p.address == at {
							p.cut()
						}
					}
					at = session.waitNthEvent("resumed", cut+1).Address
				}
				check(t, session, expectation{})
			})
		}
	}
}

func TestSessionInstanceKilled(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 2)
	c.startNode(0, nodeScript{WorkMS: 600})
	c.startNode(1, nodeScript{WorkMS: 600})
	sessions := c.startVariants()
	for _, p := range sessions {
		waitMidway(p, 1)
	}
	c.instances[0].Kill()
	for _, p := range sessions {
		check(t, p, expectation{})
	}
}

func TestSessionInstanceTerminated(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 2)
	c.startNode(0, nodeScript{WorkMS: 600})
	c.startNode(1, nodeScript{WorkMS: 600})
	sessions := c.startVariants()
	for _, p := range sessions {
		waitMidway(p, 1)
	}
	c.terminate(c.instances[0])
	for _, p := range sessions {
		check(t, p, expectation{})
	}
	c.checkExit(c.instances[0])
}

// The instance of a node ends while the node works: the node keeps the job, and reports the result to another instance.
func TestNodeInstanceKilled(t *testing.T) {
	t.Parallel()
	testNodeInstanceEnds(t, func(_ *testCluster, i *clustertest.Instance) { i.Kill() })
}

func TestNodeInstanceTerminated(t *testing.T) {
	t.Parallel()
	testNodeInstanceEnds(t, func(c *testCluster, i *clustertest.Instance) {
		c.terminate(i)
		c.t.Cleanup(func() { c.checkExit(i) })
	})
}

func testNodeInstanceEnds(t *testing.T, endInstance func(*testCluster, *clustertest.Instance)) {
	t.Helper()
	c := startCluster(t, 2)
	node := c.startNode(1, nodeScript{WorkMS: 1500})
	sessions := c.startVariants()
	assigned := node.waitEvent("assigned", nil)
	if !assigned.ByURL {
		t.Error("a node on another instance should download the audio")
	}
	endInstance(c, c.instances[1])
	node.waitEvent("registered", func(e event) bool { return e.Address == c.instances[0].Addr() })
	node.waitEvent("done", func(e event) bool { return e.JobID == assigned.JobID && e.Accepted })
	for _, p := range sessions {
		check(t, p, expectation{})
	}
}

// A node acknowledges a job, continues its heartbeats, and never reports a result.
func TestNodeThatNeverAnswers(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 2, "LINGUA_SCHEDULER_DISPATCH_ATTEMPT_TIMEOUT_MS=6000")
	silent := c.startNode(0, nodeScript{NeverAnswers: true})
	session := c.startSession(t, "session", variants["named"])
	silent.waitEvent("assigned", nil)
	c.startNode(0, nodeScript{WorkMS: 100})
	c.startNode(1, nodeScript{WorkMS: 100})
	check(t, session, expectation{})
}

// The process of a session is stopped during an utterance. A session that sends due audio before it answers a ping keeps
// the utterance; one whose library answers pings by itself may have the utterance ended, and the rest of its audio arrives
// as a further part. After 10 s the connection is closed, because a ping was not answered, and the utterance continues after
// the resume.
func TestSessionProcessStopped(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 2)
	c.startNode(0, nodeScript{WorkMS: 100})
	c.startNode(1, nodeScript{WorkMS: 100})
	for _, stall := range []time.Duration{2 * time.Second, 10 * time.Second} {
		for variant, s := range variants {
			for pongs, unordered := range map[string]bool{"ordered": false, "unordered": true} {
				if unordered && stall == 10*time.Second {
					continue // no pong is sent
				}
				name := fmt.Sprintf("%s-%v-%s", variant, stall, pongs)
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					s := s
					s.UnorderedPongs = unordered
					session := c.startSession(t, name, s)
					waitMidway(session, 1)
					session.stopFor(stall)
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

// A page stalls during an utterance while its browser answers pings, so the utterance may end; the rest of its audio is then a
// further part.
func TestSessionStallsDuringUtterance(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 1)
	c.startNode(0, nodeScript{WorkMS: 100})
	for variant, s := range variants {
		t.Run(variant, func(t *testing.T) {
			t.Parallel()
			s.Utterances = slices.Clone(utterances)
			s.Utterances[1].StallMS = 2000
			check(t, c.startSession(t, variant, s), expectation{mayBeCut: true})
		})
	}
}

// The process of a node is stopped while it works, for less than any timeout.
func TestNodeProcessStoppedBriefly(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 2)
	node := c.startNode(0, nodeScript{WorkMS: 300})
	sessions := c.startVariants()
	node.waitEvent("assigned", nil)
	node.stopFor(3 * time.Second)
	for _, p := range sessions {
		check(t, p, expectation{})
	}
}

// The process of a node is stopped until other nodes have done its jobs. Its late reports change nothing.
func TestNodeProcessStoppedUntilJobMoved(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 2)
	node := c.startNode(0, nodeScript{WorkMS: 4000}) // longer than it takes to stop it, also on a busy machine
	session := c.startSession(t, "session", variants["named"])
	assigned := node.waitEvent("assigned", nil)
	node.stop()
	c.startNode(0, nodeScript{WorkMS: 100})
	c.startNode(1, nodeScript{WorkMS: 100})
	check(t, session, expectation{})
	node.resume()
	node.signal(syscall.SIGTERM)
	node.waitEvent("stopped", nil) // when the scheduler has answered all its reports
	events, _ := node.eventsSoFar()
	for _, e := range events {
		if e.Event == "done" && e.JobID == assigned.JobID && e.Accepted {
			t.Errorf("the result of a job that another node has finished was accepted: %s", e.line)
		}
	}
}

// A session that has dropped its audio reports that, and the utterance fails at once; the session continues.
func TestDroppedAudioFailsUtterance(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 2)
	c.startNode(0, nodeScript{WorkMS: 4000})
	s := variants["named"]
	s.DropsAudio = true
	session := c.startSession(t, "drops-audio", s)
	session.waitEvent("committed", nil)
	c.instances[0].Kill()
	check(t, session, expectation{errors: map[int]string{0: "AUDIO_LOST"}, dropsAudio: true})
}
