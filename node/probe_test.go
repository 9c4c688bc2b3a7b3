package node_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/lingua-scheduler/lingua/node"
	"github.com/lingua-scheduler/lingua/wire"
)

// probeAssign is the assignment of a probe.
func probeAssign(id, ref string) wire.JobAssign {
	return wire.JobAssign{
		JobID: id, AttemptID: 1, TimeoutMS: 60_000, Probe: true, Audio: &wire.Audio{AudioFormat: wire.ProbeAudioFormat, Ref: ref, DurationMS: wire.ProbeAudioMS},
	}
}

// TestDrainedNodeAcceptsProbes checks that a probe reaches the handler of a drained node, and does not end the drain.
func TestDrainedNodeAcceptsProbes(t *testing.T) {
	t.Parallel()
	s := newFakeScheduler(t)
	n, drains := startDrainable(t, s)
	p, _ := s.register(defaultAck)
	p.send(wire.Drain{Drained: true})
	expectDrain(t, drains, true)
	p.send(probeAssign("j-1", wire.ProbeAudio))
	p.expectAck(wire.ActiveJob{JobID: "j-1", AttemptID: 1})
	j := n.awaitCall()
	if !j.Probe || j.Format != wire.ProbeAudioFormat || j.Duration.Milliseconds() != wire.ProbeAudioMS {
		t.Errorf("the job is %+v", j.Job)
	}
	j.finish("hola")
	expect[wire.JobResult](p)
	p.acknowledge(wire.ActiveJob{JobID: "j-1", AttemptID: 1})
	p.send(wire.JobAssign{JobID: "j-2", AttemptID: 1})
	if got := expect[wire.JobReject](p); got.JobID != "j-2" {
		t.Errorf("rejected %+v", got)
	}
	expectDrain(t, drains)
}

// TestProbeAudio checks that a handler reads the audio of a probe as that of every other job, and that other references are not taken for it.
func TestProbeAudio(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		assign wire.JobAssign
		want   string
	}{
		"silence":        {probeAssign("j-1", wire.ProbeAudio), `{"text_src":"RIFF","text_tgt":"3244 bytes"}`},
		"not in base64":  {probeAssign("j-1", "data:audio/wav,xx"), ""},
		"broken base64":  {probeAssign("j-1", "data:audio/wav;base64,%%"), ""},
		"another scheme": {probeAssign("j-1", "s3://bucket/x"), ""},
		"no probe":       {wire.JobAssign{JobID: "j-1", AttemptID: 1, Audio: &wire.Audio{Ref: wire.ProbeAudio}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFakeScheduler(t)
			startNodeWith(t, testConfig(s.URL), node.FastTiming{}, func(ctx context.Context, job *node.Job) (node.Result, error) {
				audio, err := job.Audio(ctx)
				if err != nil {
					return node.Result{}, err
				}
				return node.Result{TextSrc: string(audio[:4]), TextTgt: fmt.Sprint(len(audio), " bytes")}, nil
			})
			p, _ := s.register(defaultAck)
			p.send(tc.assign)
			p.expectAck(wire.ActiveJob{JobID: "j-1", AttemptID: 1})
			if tc.want == "" {
				expect[wire.JobFail](p)
				return
			}
			if got := string(expect[wire.JobResult](p).Result); got != tc.want {
				t.Errorf("result %s, want %s", got, tc.want)
			}
		})
	}
}
