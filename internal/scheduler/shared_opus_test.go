package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"

	"github.com/lingua-scheduler/lingua/client"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/redistest"
	"github.com/lingua-scheduler/lingua/node"
	"github.com/lingua-scheduler/lingua/wire"
	"github.com/lingua-scheduler/lingua/wire/oggopus"
)

// TestOpusThereAndBack: the packets that were said are those the node gets, and those it speaks are those that are heard, with
// their format, whether it is connected with the session's instance or with another.
func TestOpusThereAndBack(t *testing.T) {
	t.Parallel()
	w := share(t, redistest.Start(t).URL(), brisk(), nil)
	for at, how := range map[int]string{0: "in frames", 1: "over HTTP"} {
		t.Run(how, func(t *testing.T) {
			langs := [][]string{{"en", "es"}, {"en", "fr"}}[at] // so that it is this node's
			id := core.NodeID(fmt.Sprintf("opus-%d", at))
			ctx, stop := context.WithCancel(t.Context())
			var others sync.WaitGroup
			defer others.Wait()
			defer stop()
			got := make(chan [][]byte, 1)
			others.Go(func() {
				err := node.Run(ctx, node.Config{
					URL: w[at].peer.URL, ID: string(id), Slots: 1, Log: silent,
					Declaration: wire.Declaration{SemanticLangs: langs, TTSLangs: langs},
				}, func(ctx context.Context, job *node.Job) (node.Result, error) {
					packets, err := job.Packets(ctx)
					if err != nil {
						return node.Result{}, err
					}
					got <- packets
					spoken, err := oggopus.Encode(&oggopus.Stream{Channels: 2, SampleRate: 24_000, Packets: packets[:20]}, 1)
					return node.Result{TextTgt: "hola", Speech: spoken, SpeechFormat: wire.AudioFormat{Encoding: wire.EncodingOpus}}, err
				})
				if err != nil {
					t.Error(err)
				}
			})
			took(t, "both to see the node", patience, func() bool {
				return w[0].Fleet.Node(id) != nil && w[1].Fleet.Node(id) != nil
			})
			said := packetsOfOpus(120)
			heard, format, result := speakOpus(t, w[0].peer.URL, langs, said)
			if packets := <-got; !reflect.DeepEqual(said, packets) {
				t.Errorf("the node got %d packets, which are not the %d that were said", len(packets), len(said))
			}
			want := wire.AudioFormat{Encoding: wire.EncodingOpus, SampleRate: 24_000, Channels: 2}
			if result.TTS != "follows" || result.TTSAudio == nil || *result.TTSAudio != want || format != want {
				t.Errorf("the result says %s, %+v, and the speech %+v", result.TTS, result.TTSAudio, format)
			}
			if !reflect.DeepEqual(said[:20], heard) {
				t.Errorf("%d packets were heard, which are not those that were spoken", len(heard))
			}
		})
	}
}

// packetsOfOpus makes packets of 20 ms, no two of them alike.
func packetsOfOpus(n int) [][]byte {
	packets := make([][]byte, n)
	for i := range packets {
		packets[i] = append([]byte{1 << 3, byte(i), byte(i >> 8)}, make([]byte, i*7%300)...)
	}
	return packets
}

// speakOpus has a conversation of one utterance of packets, and returns what was heard of its spoken result.
func speakOpus(t *testing.T, url string, langs []string, packets [][]byte) (heard [][]byte, format wire.AudioFormat, result client.Result) {
	t.Helper()
	s, err := client.Start(t.Context(), client.Config{URL: url, Log: silent, Start: wire.SessionStart{
		Langs: langs, TTS: true, Audio: wire.SessionAudio{Encoding: wire.EncodingOpus, SampleRate: 48_000},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, packet := range packets {
		if _, err := s.Write(packet); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(s.Commit(), s.End()); err != nil {
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
			heard, format = append(heard, e.Audio), e.Format
		}
	}
	return heard, format, result
}
