package nodeconn

import (
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/audio"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/nodes"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
	"github.com/lingua-scheduler/lingua/wire"
)

func secretOf(id core.NodeID) string { return "the-secret-of-node-" + string(id) }

// TestResumeToken: a token resumes only the current epoch of its own node, on the instance to which the node was connected.
func TestResumeToken(t *testing.T) {
	t.Parallel()
	st := newStore()
	epochs := make(map[core.NodeID]core.Epoch)
	for _, n := range []core.Node{
		{ID: "n", Declaration: core.Declaration{Health: core.HealthReady, Owner: "i-a"}}, {ID: "elsewhere", Declaration: core.Declaration{Health: core.HealthReady, Owner: "i-b"}},
		{ID: "offline", Declaration: core.Declaration{Health: core.HealthOffline, Owner: "i-a"}}, {ID: "other", Declaration: core.Declaration{Health: core.HealthReady, Owner: "i-a"}},
	} {
		n.SecretHash = core.HashSecret(secretOf(n.ID))
		r, err := st.Register(t.Context(), store.RegisterParams{Node: n, Load: core.UnknownLoad})
		if err != nil {
			t.Fatal(err)
		}
		epochs[n.ID] = r.Node.Epoch
	}
	s := &Server{ServerOptions: ServerOptions{
		Instance: "i-a",
		Nodes:    nodes.New(nodes.Config{Instance: "i-a"}, st, fleet.New(15*time.Second), nodes.Jobs{}, telemetry.New(), slog.New(slog.DiscardHandler)),
	}}
	token := func(id core.NodeID) string { return resumeToken(epochs[id], secretOf(id)) }
	for name, c := range map[string]struct {
		id    core.NodeID
		token string
		want  bool
	}{
		"the node's own":          {"n", token("n"), true},
		"none":                    {"n", "", false},
		"without a secret":        {"n", "1", false},
		"without an epoch":        {"n", secretOf("n"), false},
		"no number":               {"n", "x.y", false},
		"of another node":         {"n", token("other"), false},
		"of another secret":       {"n", resumeToken(epochs["n"], "another-secret-of-a-node"), false},
		"of an earlier epoch":     {"n", resumeToken(epochs["n"]-1, secretOf("n")), false},
		"with another epoch":      {"n", "9" + token("n"), false},
		"changed":                 {"n", token("n") + "x", false},
		"of an unknown node":      {"unknown", resumeToken(1, secretOf("unknown")), false},
		"of an offline node":      {"offline", token("offline"), false},
		"of another instance's":   {"elsewhere", token("elsewhere"), false},
		"of a node with a prefix": {"n 1", token("n"), false},
	} {
		epoch, secret := parseResumeToken(c.token)
		got := s.resumable(t.Context(), c.id, epoch, new(core.Change), secret)
		if (got != nil) != c.want || got != nil && (got.ID != c.id || got.Epoch != epochs[c.id]) {
			t.Errorf("a token %s resumes %+v", name, got)
		}
	}
	for tenant, want := range map[core.TenantID]bool{"": true, "acme": false} {
		change := core.Change{Declaration: core.Declaration{Tenant: tenant}, Has: core.Fields{Tenant: true}}
		if got := s.resumable(t.Context(), "n", epochs["n"], &change, secretOf("n")); (got != nil) != want {
			t.Errorf("with a key of tenant %q: %+v", tenant, got)
		}
	}
}

// TestJobsWithoutAudio: a registering node is told which of its jobs have no audio here, except those that it must cancel.
func TestJobsWithoutAudio(t *testing.T) {
	t.Parallel()
	c := NewConns(Options{Audio: audio.NewBuffer(1 << 20)})
	c.Audio.Put("here", clip)
	job := func(id string) wire.ActiveJob { return wire.ActiveJob{JobID: id, AttemptID: 1} }
	var listed []wire.ActiveAttempt
	for _, id := range []string{"here", "cancelled", "elsewhere"} {
		listed = append(listed, wire.ActiveAttempt{ActiveJob: job(id)})
	}
	s := &Server{ServerOptions: ServerOptions{Conns: c}}
	got := s.withoutAudio(listed, []wire.ActiveJob{job("cancelled")})
	if diff := cmp.Diff([]wire.ActiveJob{job("elsewhere")}, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// TestResultWithSpeech: a result announces its speech, and keeps the fields of the node.
func TestResultWithSpeech(t *testing.T) {
	t.Parallel()
	opus := &wire.AudioFormat{Encoding: "opus", SampleRate: 48_000, Channels: 1}
	for name, c := range map[string]struct {
		result string
		format *wire.AudioFormat
		want   string
	}{
		"no result":        {``, nil, `{"tts":true}`},
		"null":             {`null`, nil, `{"tts":true}`},
		"fields":           {`{"text_tgt":"<b>","x":{"y":1}}`, nil, `{"text_tgt":"<b>","tts":true,"x":{"y":1}}`},
		"a format":         {`{}`, opus, `{"tts":true,"tts_audio":{"encoding":"opus","sample_rate":48000,"channels":1}}`},
		"another format":   {`{"tts_audio":{"encoding":"wav"}}`, opus, `{"tts":true,"tts_audio":{"encoding":"opus","sample_rate":48000,"channels":1}}`},
		"the node's false": {`{"tts":false,"tts_audio":{}}`, nil, `{"tts":true}`},
	} {
		if got := string(withSpeech(json.RawMessage(c.result), c.format)); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
