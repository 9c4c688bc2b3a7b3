package drill

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/lingua-scheduler/lingua/internal/auth"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/node"
	"github.com/lingua-scheduler/lingua/test/fleet"
	"github.com/lingua-scheduler/lingua/wire"
)

var (
	incarnationSteps = flag.Int("incarnation-steps", 1500, "the number of starts, cuts, resumes and ends in TestSessionIncarnationsStaySeparate")
	incarnationNames = flag.Int("incarnation-names", 8, "the number of session names in it")
)

// The keys by which the instances recognise the tokens of both tenants.
const (
	operatorKey   = "an-operator-of-the-drill"
	sessionSecret = "the session secret of the drill, long enough"
)

// incarnationSettings make the name of an ended or lost session free soon.
const incarnationSettings = commonSettings + `resume_seconds = 1
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

// TestSessionIncarnationsStaySeparate starts, cuts, resumes and ends sessions at random, with few names and two tenants,
// over several instances of which one is killed from time to time, while results arrive late: no session may receive a
// message of another incarnation of its name. In full:
//
//	go test -count=1 -v -run TestSessionIncarnationsStaySeparate ./test/drill -incarnation-steps 20000 -incarnation-names 200
func TestSessionIncarnationsStaySeparate(t *testing.T) {
	t.Parallel()
	keys, err := auth.NewKeyring(auth.Config{OperatorKeys: []string{operatorKey}, SessionSecret: sessionSecret})
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, uint64(time.Now().UnixNano())))
	c := startTestCluster(t, buildOnce(t), *drillTopology, r, []byte(incarnationSettings))
	c.startLateNodes(t)
	reuse := &nameReuseTest{t: t, cluster: c, keys: keys, nameCount: *incarnationNames}
	var running sync.WaitGroup
	const workers = 32
	for n := range workers {
		workerRand := rand.New(rand.NewPCG(uint64(n), r.Uint64()))
		running.Go(func() {
			for reuse.steps.Add(1) <= int64(*incarnationSteps) {
				reuse.step(workerRand)
				run.Sleep(t.Context(), time.Duration(workerRand.Int64N(int64(2*stepInterval))))
			}
		})
	}
	done := make(chan struct{})
	go func() { running.Wait(); close(done) }()
	reuse.killInstances(done, r)
	reuse.closeAll()
	t.Logf("%d names of 2 tenants, %d steps: %d starts (%d refused), %d utterances, %d cuts, %d resumes (%d refused), %d ends, %d kills; %d messages, %d of them with text, %d of another incarnation",
		reuse.nameCount, *incarnationSteps, reuse.starts.Load(), reuse.startRefused.Load(), reuse.utterances.Load(), reuse.cuts.Load(), reuse.resumes.Load(), reuse.resumeRefused.Load(), reuse.ends.Load(), reuse.kills.Load(),
		reuse.messages.Load(), reuse.texts.Load(), reuse.foreign.Load())
	if reuse.texts.Load() == 0 || reuse.starts.Load() == 0 || reuse.resumes.Load() == 0 {
		t.Error("the run proves nothing: there was no text, no start or no resume")
	}
}

// startLateNodes starts nodes that return the number that is in the audio, after a time that may be longer than the session
// exists.
func (c *testCluster) startLateNodes(t *testing.T) {
	fleet.StartNodes(t, func(ctx context.Context, job *node.Job) (node.Result, error) {
		audio, err := job.Audio(ctx)
		if err != nil {
			return node.Result{}, err
		}
		if len(audio) < 8 {
			return node.Result{}, node.Fail("NO_NUMBER")
		}
		if rand.IntN(3) > 0 {
			run.Sleep(ctx, rand.N(1800*time.Millisecond))
		}
		return node.Result{TextTgt: conversationName(binary.LittleEndian.Uint64(audio))}, nil
	}, fleet.Configs(4, func(i int) node.Config {
		return node.Config{
			URL: c.NodeBalancer.URL(), ID: fmt.Sprintf("late-%d", i), Slots: 64, Token: operatorKey, ShutdownTimeout: time.Millisecond,
		}
	})...)
}

func conversationName(number uint64) string { return fmt.Sprintf("c%d", number) }

// nameReuseTest is one run of TestSessionIncarnationsStaySeparate.
type nameReuseTest struct {
	t         *testing.T
	cluster   *testCluster
	keys      *auth.Keyring
	nameCount int

	mu            sync.Mutex
	conversations []*conversation // those that are continued

	steps, numbers                                                              atomic.Int64
	starts, startRefused, utterances, cuts, resumes, resumeRefused, ends, kills atomic.Int64
	messages, texts, foreign                                                    atomic.Int64
	readers                                                                     sync.WaitGroup
}

// conversation is one incarnation of a session, as its client sees it.
type conversation struct {
	number  uint64
	tenant  core.TenantID
	session string
	token   string

	mu   sync.Mutex
	conn *websocket.Conn
}

// stepInterval is the mean time between two steps of a worker: names have to become free again.
const stepInterval = 100 * time.Millisecond

func (reuse *nameReuseTest) step(r *rand.Rand) {
	switch r.IntN(10) {
	case 0, 1, 2:
		reuse.start(r)
	case 3, 4, 5:
		if conv := reuse.pick(r); conv != nil {
			reuse.sendUtterance(conv)
		}
	case 6:
		if conv := reuse.pick(r); conv != nil {
			reuse.cuts.Add(1)
			conv.cut()
		}
	case 7, 8:
		if conv := reuse.pick(r); conv != nil {
			reuse.resume(conv)
		}
	case 9:
		if conv := reuse.pick(r); conv != nil {
			reuse.ends.Add(1)
			conv.send(reuse.t.Context(), wire.SessionEnd{})
			reuse.abandon(conv)
		}
	}
}

func (reuse *nameReuseTest) pick(r *rand.Rand) *conversation {
	reuse.mu.Lock()
	defer reuse.mu.Unlock()
	if len(reuse.conversations) == 0 {
		return nil
	}
	return reuse.conversations[r.IntN(len(reuse.conversations))]
}

// abandon removes a conversation from those that are continued.
func (reuse *nameReuseTest) abandon(conv *conversation) {
	reuse.mu.Lock()
	defer reuse.mu.Unlock()
	reuse.conversations = slices.DeleteFunc(reuse.conversations, func(other *conversation) bool { return other == conv })
}

func (reuse *nameReuseTest) start(r *rand.Rand) {
	conv := &conversation{
		number: uint64(reuse.numbers.Add(1)), tenant: []core.TenantID{"acme", "beta"}[r.IntN(2)],
		session: fmt.Sprintf("room-%d", r.IntN(reuse.nameCount)),
	}
	conv.token = fmt.Sprintf("resume token %d of %d", conv.number, r.Uint64())
	if !reuse.connect(conv, wire.SessionStart{SessionID: conv.session, ResumeToken: conv.token, Langs: []string{"en", "es"}}) {
		reuse.startRefused.Add(1)
		return
	}
	reuse.starts.Add(1)
	reuse.sendUtterance(conv)
	if r.IntN(2) == 0 { // the client does not wait for the result
		reuse.cuts.Add(1)
		conv.cut()
	}
	reuse.mu.Lock()
	defer reuse.mu.Unlock()
	if reuse.conversations = append(reuse.conversations, conv); len(reuse.conversations) > reuse.nameCount/2 { // the oldest is abandoned, so that its name becomes free
		reuse.conversations[0].cut()
		reuse.conversations = slices.Delete(reuse.conversations, 0, 1)
	}
}

func (reuse *nameReuseTest) resume(conv *conversation) {
	if reuse.connect(conv, wire.SessionResume{SessionID: conv.session, ResumeToken: conv.token}) {
		reuse.resumes.Add(1)
	} else {
		reuse.resumeRefused.Add(1)
	}
}

// connect opens a connection and reads from it if the first message is accepted.
func (reuse *nameReuseTest) connect(conv *conversation, first wire.Frame) bool {
	ctx, cancel := context.WithTimeout(reuse.t.Context(), 5*time.Second)
	defer cancel()
	token, err := mintAsOperator(reuse.keys, core.SessionID(conv.session), conv.tenant, time.Minute)
	if err != nil {
		reuse.t.Error(err)
		return false
	}
	conn, _, err := websocket.Dial(ctx, strings.Replace(reuse.cluster.ClientBalancer.URL(), "http", "ws", 1)+"/ws/session", &websocket.DialOptions{
		Subprotocols: []string{wire.Subprotocol, wire.TokenSubprotocol + token},
	})
	if err != nil {
		return false // the instance was killed
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
	conv.mu.Lock()
	old := conv.conn
	conv.conn = conn
	conv.mu.Unlock()
	if old != nil {
		_ = old.CloseNow()
	}
	reuse.readers.Go(func() { reuse.read(conv, conn) })
	return true
}

// read checks that every message belongs to the conversation.
func (reuse *nameReuseTest) read(conv *conversation, conn *websocket.Conn) {
	want := conversationName(conv.number)
	for {
		_, body, err := conn.Read(reuse.t.Context())
		if err != nil {
			return
		}
		var m struct {
			Type        string  `json:"type"`
			UtteranceID *string `json:"utterance_id"`
			TextTgt     *string `json:"text_tgt"`
		}
		if err := wire.Decode(body, &m); err != nil {
			reuse.t.Errorf("%s: %v", body, err)
			return
		}
		reuse.messages.Add(1)
		if m.TextTgt != nil {
			reuse.texts.Add(1)
		}
		for _, text := range []*string{m.UtteranceID, m.TextTgt} {
			if text != nil && *text != want {
				reuse.foreign.Add(1)
				reuse.t.Errorf("conversation %s of %s/%s received a %s of %s", want, conv.tenant, conv.session, m.Type, *text)
			}
		}
	}
}

// sendUtterance sends audio of the same length in every conversation, so that the default request ids are the same.
func (reuse *nameReuseTest) sendUtterance(conv *conversation) {
	audio := slices.Clone(tone)
	binary.LittleEndian.PutUint64(audio, conv.number)
	if conv.send(reuse.t.Context(), wire.AudioChunk{UtteranceID: conversationName(conv.number), Data: audio, IsFinal: true}) {
		reuse.utterances.Add(1)
	}
}

func (conv *conversation) send(ctx context.Context, f wire.Frame) bool {
	conv.mu.Lock()
	conn := conv.conn
	conv.mu.Unlock()
	text, err := wire.EncodeFrame(f)
	return err == nil && conn.Write(ctx, websocket.MessageText, text) == nil
}

func (conv *conversation) cut() {
	conv.mu.Lock()
	defer conv.mu.Unlock()
	_ = conv.conn.CloseNow()
}

// killInstances kills an instance and restarts it, from time to time, until the workers are done.
func (reuse *nameReuseTest) killInstances(done chan struct{}, r *rand.Rand) {
	for {
		select {
		case <-done:
			return
		case <-time.After(2*time.Second + rand.N(2*time.Second)):
		}
		i := reuse.cluster.Instances[r.IntN(len(reuse.cluster.Instances))]
		i.Kill()
		reuse.kills.Add(1)
		if err := i.Start(reuse.t.Context()); err != nil && !errors.Is(err, context.Canceled) {
			reuse.t.Error(err)
			<-done
			return
		}
	}
}

func (reuse *nameReuseTest) closeAll() {
	reuse.mu.Lock()
	for _, conv := range reuse.conversations {
		conv.cut()
	}
	reuse.mu.Unlock()
	reuse.readers.Wait()
}
