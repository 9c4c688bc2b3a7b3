package drill

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/lingua-scheduler/lingua/internal/auth"
	"github.com/lingua-scheduler/lingua/internal/backoff"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/node"
	"github.com/lingua-scheduler/lingua/wire"
)

var (
	incarnationSteps = flag.Int("incarnation-steps", 3000, "how many starts, cuts, resumes and ends TestIncarnations makes")
	incarnationNames = flag.Int("incarnation-names", 8, "of how many session names")
)

// What both tenants are told from each other by.
const (
	operatorKey   = "an-operator-of-the-drill"
	sessionSecret = "the session secret of the drill, long enough"
)

// incarnationSettings let a name be used again soon after its session ended or was lost.
const incarnationSettings = bounds + `resume_seconds = 1
idle_seconds = 1
wait_ms = 0

[scheduler.dispatch]
ack_timeout_ms = 500
attempt_timeout_ms = 1900
job_timeout_ms = 2000

[scheduler.task_binding]
reserved_ttl_seconds = 1
lease_seconds = 30

[auth]
operator_keys = ["` + operatorKey + `"]
session_secret = "` + sessionSecret + `"
`

// TestIncarnations starts, cuts, resumes, ends and restarts sessions of few names and two tenants at random, over several
// instances of which one is killed now and then, while results come late: no message may carry what was said in another
// conversation of the same name. In full:
//
//	go test -count=1 -v -run TestIncarnations ./internal/drill -incarnation-steps 20000 -incarnation-names 200
func TestIncarnations(t *testing.T) {
	keys, err := auth.New(auth.Config{OperatorKeys: []string{operatorKey}, Secret: sessionSecret})
	if err != nil {
		t.Fatal(err)
	}
	dice := rand.New(rand.NewPCG(1, uint64(time.Now().UnixNano())))
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	c := musterWith(t, path, dice, []byte(incarnationSettings))
	c.serveLate(t)
	x := &confusion{t: t, c: c, keys: keys, names: *incarnationNames}
	var all sync.WaitGroup
	const workers = 32
	for n := range workers {
		w := rand.New(rand.NewPCG(uint64(n), dice.Uint64()))
		all.Go(func() {
			for x.steps.Add(1) <= int64(*incarnationSteps) {
				x.step(w)
				backoff.Sleep(t.Context(), time.Duration(w.Int64N(int64(2*stepEvery))))
			}
		})
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	x.strike(done, dice)
	x.closeAll()
	t.Logf("%d names of 2 tenants, %d steps: %d starts (%d refused), %d utterances, %d cuts, %d resumes (%d refused), %d ends, %d kills; %d messages, %d of them with text, %d of another conversation",
		x.names, *incarnationSteps, x.starts.Load(), x.refused.Load(), x.spoken.Load(), x.cuts.Load(), x.resumes.Load(), x.lapsed.Load(), x.ends.Load(), x.kills.Load(),
		x.messages.Load(), x.texts.Load(), x.foreign.Load())
	if x.texts.Load() == 0 || x.starts.Load() == 0 || x.resumes.Load() == 0 {
		t.Error("that proves nothing")
	}
}

// serveLate runs nodes that answer with the number that is in the audio, after a while that may be longer than the session
// lives.
func (c *cluster) serveLate(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	t.Cleanup(func() { stop(); all.Wait() })
	for i := range 4 {
		all.Go(func() {
			err := node.Run(ctx, node.Config{
				URL: c.nodes.url(), ID: fmt.Sprintf("late-%d", i), Slots: 64, Token: operatorKey, Log: slog.New(slog.DiscardHandler), ShutdownTimeout: time.Millisecond,
				Declaration: wire.Declaration{SemanticLangs: []string{"en", "es"}},
			}, func(ctx context.Context, job *node.Job) (node.Result, error) {
				audio, err := job.Audio(ctx)
				if err != nil {
					return node.Result{}, err
				}
				if len(audio) < 8 {
					return node.Result{}, node.Fail("NO_NUMBER")
				}
				if rand.IntN(3) > 0 {
					backoff.Sleep(ctx, rand.N(1800*time.Millisecond))
				}
				return node.Result{TextTgt: conversationName(binary.LittleEndian.Uint64(audio))}, nil
			})
			if err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		})
	}
}

func conversationName(number uint64) string { return fmt.Sprintf("c%d", number) }

// confusion is the run of that test.
type confusion struct {
	t     *testing.T
	c     *cluster
	keys  *auth.Keys
	names int

	mu  sync.Mutex
	now []*conversation // the last ones

	steps, numbers                                              atomic.Int64
	starts, refused, spoken, cuts, resumes, lapsed, ends, kills atomic.Int64
	messages, texts, foreign                                    atomic.Int64
	readers                                                     sync.WaitGroup
}

// conversation is one start of a session, as its client sees it.
type conversation struct {
	number  uint64
	tenant  core.TenantID
	session string
	token   string

	mu   sync.Mutex
	conn *websocket.Conn
}

// stepEvery is how long each of those who take part waits between two steps: names have to become free again.
const stepEvery = 100 * time.Millisecond

func (x *confusion) step(r *rand.Rand) {
	switch r.IntN(10) {
	case 0, 1, 2:
		x.start(r)
	case 3, 4, 5:
		if v := x.some(r); v != nil {
			x.speak(v)
		}
	case 6:
		if v := x.some(r); v != nil {
			x.cuts.Add(1)
			v.cut()
		}
	case 7, 8:
		if v := x.some(r); v != nil {
			x.resume(v)
		}
	case 9:
		if v := x.some(r); v != nil {
			x.ends.Add(1)
			v.send(x.t.Context(), wire.SessionEnd{})
			x.abandon(v)
		}
	}
}

func (x *confusion) some(r *rand.Rand) *conversation {
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(x.now) == 0 {
		return nil
	}
	return x.now[r.IntN(len(x.now))]
}

// abandon has nobody go on with a conversation.
func (x *confusion) abandon(v *conversation) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.now = slices.DeleteFunc(x.now, func(other *conversation) bool { return other == v })
}

func (x *confusion) start(r *rand.Rand) {
	v := &conversation{
		number: uint64(x.numbers.Add(1)), tenant: []core.TenantID{"acme", "beta"}[r.IntN(2)],
		session: fmt.Sprintf("room-%d", r.IntN(x.names)),
	}
	v.token = fmt.Sprintf("resume token %d of %d", v.number, r.Uint64())
	if !x.connect(v, wire.SessionStart{SessionID: v.session, ResumeToken: v.token, Langs: []string{"en", "es"}}) {
		x.refused.Add(1)
		return
	}
	x.starts.Add(1)
	x.speak(v)
	if r.IntN(2) == 0 { // nobody waits for the result
		x.cuts.Add(1)
		v.cut()
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.now = append(x.now, v); len(x.now) > x.names/2 { // the others are abandoned, so that their names become free
		x.now[0].cut()
		x.now = slices.Delete(x.now, 0, 1)
	}
}

func (x *confusion) resume(v *conversation) {
	if x.connect(v, wire.SessionResume{SessionID: v.session, ResumeToken: v.token}) {
		x.resumes.Add(1)
	} else {
		x.lapsed.Add(1)
	}
}

// connect makes a connection and reads what comes over it, if the first message is answered well.
func (x *confusion) connect(v *conversation, first wire.Frame) bool {
	ctx, cancel := context.WithTimeout(x.t.Context(), 5*time.Second)
	defer cancel()
	token, err := x.keys.Mint(auth.SessionGrant{Session: core.SessionID(v.session), Tenant: v.tenant}, time.Now().Add(time.Minute))
	if err != nil {
		x.t.Error(err)
		return false
	}
	conn, _, err := websocket.Dial(ctx, strings.Replace(x.c.people.url(), "http", "ws", 1)+"/ws/session", &websocket.DialOptions{
		Subprotocols: []string{wire.Subprotocol, wire.TokenSubprotocol + token},
	})
	if err != nil {
		return false // its instance was killed
	}
	conn.SetReadLimit(-1)
	text, err := wire.EncodeFrame(first)
	if err == nil {
		err = conn.Write(ctx, websocket.MessageText, text)
	}
	var body []byte
	if err == nil {
		_, body, err = conn.Read(ctx)
	}
	typ, typeErr := wire.TypeOf(body)
	if err != nil || typeErr != nil || typ == (wire.ErrorFrame{}).Type() {
		_ = conn.CloseNow()
		return false
	}
	v.mu.Lock()
	old := v.conn
	v.conn = conn
	v.mu.Unlock()
	if old != nil {
		_ = old.CloseNow()
	}
	x.readers.Go(func() { x.read(v, conn) })
	return true
}

// read holds every message against the conversation it came to.
func (x *confusion) read(v *conversation, conn *websocket.Conn) {
	own := conversationName(v.number)
	for {
		_, body, err := conn.Read(x.t.Context())
		if err != nil {
			return
		}
		var m struct {
			Type        string  `json:"type"`
			UtteranceID *string `json:"utterance_id"`
			TextTgt     *string `json:"text_tgt"`
		}
		if err := wire.Decode(body, &m); err != nil {
			x.t.Errorf("%s: %v", body, err)
			return
		}
		x.messages.Add(1)
		if m.TextTgt != nil {
			x.texts.Add(1)
		}
		for _, of := range []*string{m.UtteranceID, m.TextTgt} {
			if of != nil && *of != own {
				x.foreign.Add(1)
				x.t.Errorf("conversation %s of %s/%s was sent a %s of %s", own, v.tenant, v.session, m.Type, *of)
			}
		}
	}
}

// speak says something of the same length in every conversation, so that the default request ids are the same.
func (x *confusion) speak(v *conversation) {
	audio := slices.Clone(tone)
	binary.LittleEndian.PutUint64(audio, v.number)
	if v.send(x.t.Context(), wire.AudioChunk{UtteranceID: conversationName(v.number), Data: audio, IsFinal: true}) {
		x.spoken.Add(1)
	}
}

func (v *conversation) send(ctx context.Context, f wire.Frame) bool {
	v.mu.Lock()
	conn := v.conn
	v.mu.Unlock()
	text, err := wire.EncodeFrame(f)
	return err == nil && conn.Write(ctx, websocket.MessageText, text) == nil
}

func (v *conversation) cut() {
	v.mu.Lock()
	defer v.mu.Unlock()
	_ = v.conn.CloseNow()
}

// strike kills an instance and starts it again, now and then, until the work is done.
func (x *confusion) strike(done chan struct{}, dice *rand.Rand) {
	for {
		select {
		case <-done:
			return
		case <-time.After(2*time.Second + rand.N(2*time.Second)):
		}
		i := x.c.instances[dice.IntN(len(x.c.instances))]
		i.kill()
		x.kills.Add(1)
		if err := i.start(x.t.Context()); err != nil && !errors.Is(err, context.Canceled) {
			x.t.Error(err)
			<-done
			return
		}
	}
}

func (x *confusion) closeAll() {
	x.mu.Lock()
	for _, v := range x.now {
		v.cut()
	}
	x.mu.Unlock()
	x.readers.Wait()
}
