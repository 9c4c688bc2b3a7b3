package client_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/client"
	"github.com/lingua-scheduler/lingua/wire"
)

// honest is a scheduler that keeps to the protocol, with connections that do not last. It loses, now and then, the
// audio of utterances that have no result yet, and asks for it again.
type honest struct {
	random  *rand.Rand
	audio   map[int64]string // by frame; "" ends an utterance
	next    int64            // the frame that comes next
	begun   int64            // the first frame of the open utterance
	spans   [][2]int64       // of the committed utterances
	outbox  []wire.SessionResult
	started bool
	ended   bool
}

func newHonest(seed uint64) *honest {
	return &honest{random: rand.New(rand.NewPCG(seed, 1)), audio: make(map[int64]string), next: 1, begun: 1}
}

// serve plays one connection, which is cut after some messages.
func (h *honest) serve(p *peer) {
	if h.started {
		var r wire.SessionResume
		p.expect(&r)
		if n := len(h.outbox); n < len(h.spans) && h.random.IntN(3) == 0 {
			h.next = h.spans[n][0] // its audio is gone
		}
		p.send(wire.SessionResumed{Recovered: true, NextAudioSeq: h.next, LastSeq: int64(len(h.outbox))})
		for _, missed := range h.outbox[r.LastSeq:] {
			p.send(missed)
		}
	} else {
		p.begin(limits)
		h.started = true
	}
	for life := h.random.IntN(30); life > 0 || h.ended; life-- {
		if h.ended && len(h.outbox) == len(h.spans) {
			p.send(wire.SessionEnded{SessionID: "s-1", Utterances: int64(len(h.spans))})
			_ = p.conn.Close(1000, "")
			return
		}
		if waiting := len(h.outbox) < len(h.spans) && h.spans[len(h.outbox)][1] < h.next; waiting && (h.ended || h.random.IntN(3) == 0) {
			h.answer(p)
			continue
		}
		if !h.hear(p) {
			return
		}
	}
	p.cut()
}

// answer sends the next result: the words of the utterance. Repeats of old ones come with it.
func (h *honest) answer(p *peer) {
	n := len(h.outbox)
	var words []string
	for seq := h.spans[n][0]; seq < h.spans[n][1]; seq++ {
		words = append(words, strings.TrimSpace(h.audio[seq]))
	}
	r := result(int64(n+1), int64(n))
	r.TextSrc = strings.Join(words, " ")
	h.outbox = append(h.outbox, r)
	_ = p.trySend(r, h.outbox[h.random.IntN(n+1)])
}

// hear takes one message. It reports false when the connection is over.
func (h *honest) hear(p *peer) bool {
	typ, body, err := p.read()
	if err != nil {
		return false
	}
	var chunk wire.AudioChunk
	if typ == 2 {
		chunk.Data = body
	} else {
		switch kind, _ := wire.TypeOf(body); kind {
		case "audio_chunk":
			if err := wire.Decode(body, &chunk); err != nil {
				p.fail("%v", err)
			}
		case "session_end":
			h.ended = true
			return true
		default:
			p.fail("got %s", body)
		}
	}
	seq := h.next
	h.next++
	if chunk.Seq != 0 && chunk.Seq != seq {
		p.fail("got frame %d as %d", seq, chunk.Seq)
	}
	if old, ok := h.audio[seq]; ok && old != string(chunk.Data) {
		p.fail("frame %d was %q and is %q", seq, old, chunk.Data)
	}
	h.audio[seq] = string(chunk.Data)
	if chunk.IsFinal && seq > h.begun {
		n := int64(len(h.spans))
		h.spans = append(h.spans, [2]int64{h.begun, seq})
		h.begun = seq + 1
		return p.trySend(committed(n, h.spans[n][0], seq)) == nil
	}
	return true
}

// TestStorm: however often the connection is cut, every utterance has one result, in order, with all its words.
func TestStorm(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				const utterances = 25
				h := newHonest(seed)
				f := newPipedFake(t)
				f.always = h.serve
				l := start(t, f.config())
				var said []string
				go func() {
					for u := range utterances {
						for w := range 1 + u%4 {
							_, _ = fmt.Fprintf(l, "%8s", fmt.Sprint("w", u, ".", w))
						}
						_ = l.Commit()
					}
					_ = l.End()
				}()
				for u := range utterances {
					var words []string
					for w := range 1 + u%4 {
						words = append(words, fmt.Sprint("w", u, ".", w))
					}
					said = append(said, strings.Join(words, " "))
				}
				var heard []string
				cuts := 0
				for e, err := range l.Events() {
					switch e := e.(type) {
					case client.Result:
						heard = append(heard, e.TextSrc)
					case client.SessionResumed:
						cuts++
					}
					if err != nil {
						t.Error(err)
					}
				}
				if cuts == 0 {
					t.Error("nothing was cut")
				}
				if diff := cmp.Diff(said, heard); diff != "" {
					t.Errorf("after %d cuts (-said +heard):\n%s", cuts, diff)
				}
			})
		})
	}
}
