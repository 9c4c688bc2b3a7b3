package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/lingua-scheduler/lingua/client"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/node"
	"github.com/lingua-scheduler/lingua/test/fleet"
	"github.com/lingua-scheduler/lingua/test/redistest"
	"github.com/lingua-scheduler/lingua/wire"
	"github.com/lingua-scheduler/lingua/wire/oggopus"
)

// TestOpusPacketsReachNodeAndClient: the node gets the packets that the client sent, and the client those of the speech, with
// their format, whether the node is connected to the session's instance or to another.
func TestOpusPacketsReachNodeAndClient(t *testing.T) {
	t.Parallel()
	cfg := fastConfig()
	patient(&cfg)
	instances := startCluster(t, redistest.Start(t).URL(), cfg, nil)
	for at, how := range map[int]string{0: "in frames", 1: "over HTTP"} {
		t.Run(how, func(t *testing.T) {
			langs := [][]string{{"en", "es"}, {"en", "fr"}}[at] // which only this node serves
			id := core.NodeID(fmt.Sprintf("opus-%d", at))
			got := make(chan [][]byte, 1)
			fleet.StartNodes(t, func(ctx context.Context, job *node.Job) (node.Result, error) {
				packets, err := job.Packets(ctx)
				if err != nil {
					return node.Result{}, err
				}
				got <- packets
				speech, err := oggopus.Encode(&oggopus.Stream{Channels: 2, SampleRate: 24_000, Packets: packets[:20]}, 1)
				return node.Result{TextTgt: "hola", Speech: speech, SpeechFormat: wire.AudioFormat{Encoding: wire.EncodingOpus}}, err
			}, node.Config{
				URL: instances[at].peer.URL, ID: string(id), Slots: 1, Declaration: wire.Declaration{SemanticLangs: langs, TTSLangs: langs},
			})
			waitUntil(t, "both instances to see the node", waitLimit, func() bool {
				return instances[0].Fleet.Node(id) != nil && instances[1].Fleet.Node(id) != nil
			})
			sent := opusPackets(120)
			received, format, result := speakOpus(t, instances[0].peer.URL, langs, sent)
			if packets := <-got; !reflect.DeepEqual(sent, packets) {
				t.Errorf("the node got %d packets, which are not the %d that were sent", len(packets), len(sent))
			}
			want := wire.AudioFormat{Encoding: wire.EncodingOpus, SampleRate: 24_000, Channels: 2}
			if result.TTS != "follows" || result.TTSAudio == nil || *result.TTSAudio != want || format != want {
				t.Errorf("the result has %s, %+v, and the speech %+v", result.TTS, result.TTSAudio, format)
			}
			if !reflect.DeepEqual(sent[:20], received) {
				t.Errorf("%d packets of speech were received, which are not those that were sent", len(received))
			}
		})
	}
}

// opusPackets makes packets of 20 ms, no two of them equal.
func opusPackets(n int) [][]byte {
	packets := make([][]byte, n)
	for i := range packets {
		packets[i] = append([]byte{1 << 3, byte(i), byte(i >> 8)}, make([]byte, i*7%300)...)
	}
	return packets
}

// speakOpus runs a session of one utterance of packets, and returns the result and its speech.
func speakOpus(t *testing.T, url string, langs []string, packets [][]byte) (received [][]byte, format wire.AudioFormat, result client.Result) {
	t.Helper()
	s := fleet.StartSession(t, client.Config{URL: url, Start: wire.SessionStart{
		Langs: langs, TTS: true, Audio: wire.SessionAudio{Encoding: wire.EncodingOpus, SampleRate: 48_000},
	}})
	if err := errors.Join(s.Utter(packets...), s.End()); err != nil {
		t.Fatal(err)
	}
	for e, err := range s.Events() {
		if err != nil {
			t.Fatal(err)
		}
		switch e := e.(type) {
		case client.Result:
			result = e
		case client.UtteranceFailed:
			t.Fatalf("%+v", e)
		case client.SpeechChunk:
			received, format = append(received, e.Audio), e.Format
		}
	}
	return received, format, result
}
