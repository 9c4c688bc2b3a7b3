package drill

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
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
	"github.com/lingua-scheduler/lingua/test/clustertest"
	"github.com/lingua-scheduler/lingua/test/fleet"
	"github.com/lingua-scheduler/lingua/wire"
)

var abuseDuration = flag.Duration("abuse-for", 6*time.Second, "how long TestOneSessionTokenHasBoundedCost runs")

// What one session may cost at most with default settings, in addition to the memory before it.
const (
	maxInstanceMemory = 96 << 20
	maxRedisMemory    = 48 << 20
)

// TestOneSessionTokenHasBoundedCost sends the worst that one session token allows, over several connections: the memory of
// the instance and of Redis stays within its limits. In full:
//
//	go test -count=1 -v -timeout 20m -run TestOneSessionTokenHasBoundedCost ./test/drill -abuse-for 10m
func TestOneSessionTokenHasBoundedCost(t *testing.T) {
	if *drillTopology != clustertest.Standalone {
		t.Skip("the test measures the memory of one server")
	}
	t.Parallel()
	binary := buildOnce(t)
	keys, err := auth.NewKeyring(auth.Config{OperatorKeys: []string{operatorKey}, SessionSecret: sessionSecret})
	if err != nil {
		t.Fatal(err)
	}
	c := startTestCluster(t, binary, *drillTopology, rand.New(rand.NewPCG(1, 2)), []byte("[auth]\noperator_keys = [\""+operatorKey+"\"]\nsession_secret = \""+sessionSecret+"\"\n"))
	startFastNode(t, c.NodeBalancer.URL())
	token, err := mintAsOperator(keys, "room-1", "acme", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	a := &abuser{t: t, url: strings.Replace(c.Instances[0].URL(), "http", "ws", 1) + "/ws/session", token: token}
	before := a.measure(c)
	ctx, stop := context.WithTimeout(t.Context(), *abuseDuration)
	defer stop()
	var running sync.WaitGroup
	// A second connection of the session replaces the first, so the patterns take turns, and only sometimes two run at
	// once.
	for n, interval := range []time.Duration{0, 3 * time.Second} {
		running.Go(func() {
			r := rand.New(rand.NewPCG(uint64(n), 7))
			for turn := 0; ctx.Err() == nil; turn++ {
				a.attack(ctx, r, a.attackPatterns()[turn%len(a.attackPatterns())])
				run.Sleep(ctx, interval)
			}
		})
	}
	peak := before
	for ctx.Err() == nil {
		run.Sleep(ctx, 500*time.Millisecond)
		peak = peak.maxWith(a.measure(c))
	}
	running.Wait()
	t.Logf("%v, %d connections, %d messages, %d MiB sent, %d utterances: the instance took %d MiB more than before (limit %d), Redis %d MiB more (limit %d)",
		*abuseDuration, a.conns.Load(), a.messages.Load(), a.bytes.Load()>>20, a.utterances.Load(),
		(peak.instance-before.instance)>>20, maxInstanceMemory>>20, (peak.redis-before.redis)>>20, maxRedisMemory>>20)
	if peak.instance-before.instance > maxInstanceMemory || peak.redis-before.redis > maxRedisMemory {
		t.Error("the session used more memory than it may")
	}
	if a.messages.Load() < 1000 || a.utterances.Load() == 0 {
		t.Error("the run proves nothing: there were too few messages or no utterance")
	}
}

// startFastNode starts a node that answers at once, with as much text as a minute of speech has.
func startFastNode(t *testing.T, url string) {
	fleet.StartNodes(t, fleet.Answer(node.Result{TextSrc: strings.Repeat("word ", 200), TextTgt: strings.Repeat("palabra ", 200)}), node.Config{
		URL: url, ID: "fast", Slots: 64, Token: operatorKey, ShutdownTimeout: time.Millisecond,
		Declaration: wire.Declaration{InstalledModels: models(39, 96)},
	})
}

// abuser is one run of TestOneSessionTokenHasBoundedCost.
type abuser struct {
	t     *testing.T
	url   string
	token string

	conns, messages, bytes, utterances atomic.Int64
}

// memoryUse is the memory of the instance and of Redis, in bytes.
type memoryUse struct{ instance, redis int64 }

func (m memoryUse) maxWith(other memoryUse) memoryUse {
	return memoryUse{max(m.instance, other.instance), max(m.redis, other.redis)}
}

// measure reads the resident memory of the instance, and the memory that Redis reports.
func (a *abuser) measure(c *testCluster) memoryUse {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.Instances[0].Process.Pid))
	if err != nil {
		a.t.Fatal(err)
	}
	info, err := c.Redis.Servers()[0].Do("INFO", "memory")
	if err != nil {
		a.t.Fatal(err)
	}
	return memoryUse{
		instance: 1024 * parseField(a.t, string(status), "VmRSS:"),
		redis:    parseField(a.t, fmt.Sprint(info), "used_memory:"),
	}
}

// parseField reads the number that follows a name.
func parseField(t *testing.T, text, name string) int64 {
	_, rest, ok := strings.Cut(text, name)
	digits := strings.TrimLeft(rest, " \t")
	end := strings.IndexFunc(digits, func(r rune) bool { return r < '0' || r > '9' })
	if !ok || end <= 0 {
		t.Fatalf("%s is missing in %.100q", name, text)
	}
	n, err := strconv.ParseInt(digits[:end], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// attackPattern is what is sent over one connection. It returns when the connection is closed, or after a number of
// messages.
type attackPattern func(ctx context.Context, r *rand.Rand, send func(binary bool, data []byte) bool)

func frameText(f wire.Frame) []byte {
	text, err := wire.EncodeFrame(f)
	if err != nil {
		panic(err) // the frames are constants of this test
	}
	return text
}

// models returns names of models, a number of them of a size in bytes.
func models(count, size int) []string {
	list := make([]string, count)
	for i := range list {
		list[i] = fmt.Sprintf("%0*d", size, i)
	}
	return list
}

// shuffled returns the list in another order, which makes it other options for the scheduler.
func shuffled(r *rand.Rand, list []string) []string {
	r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

func (a *abuser) attackPatterns() []attackPattern {
	long := strings.Repeat("x", 100)
	repeat := func(n int, send func(bool, []byte) bool, message func(i int) (bool, []byte)) {
		for i := range n {
			if !send(message(i)) {
				return
			}
		}
	}
	return []attackPattern{
		// Utterances of one sample, each with an id and a request id of the maximum length.
		func(_ context.Context, r *rand.Rand, send func(bool, []byte) bool) {
			repeat(5000, send, func(int) (bool, []byte) {
				id := fmt.Sprintf("%s%d", long, r.Uint32())
				return false, frameText(wire.AudioChunk{UtteranceID: id, RequestID: id, Data: []byte{1, 2}, IsFinal: true})
			})
		},
		// Options of the maximum size, and larger ones, with an utterance for each.
		func(_ context.Context, r *rand.Rand, send func(bool, []byte) bool) {
			repeat(2000, send, func(i int) (bool, []byte) {
				switch i % 3 {
				case 0:
					return false, frameText(wire.SessionUpdate{Options: &wire.DispatchOptions{RequiredModels: shuffled(r, models(39, 96))}})
				case 1:
					return false, frameText(wire.SessionUpdate{Options: &wire.DispatchOptions{RequiredModels: models(800, 250)}})
				}
				return false, frameText(wire.AudioChunk{Data: tone, IsFinal: true})
			})
		},
		// As much audio as possible in one utterance that never ends.
		func(_ context.Context, _ *rand.Rand, send func(bool, []byte) bool) {
			large := make([]byte, 200<<10)
			repeat(500, send, func(int) (bool, []byte) { return true, large })
		},
		// Every frame names another utterance and so ends the one before it; some name ended ones.
		func(_ context.Context, r *rand.Rand, send func(bool, []byte) bool) {
			repeat(3000, send, func(int) (bool, []byte) {
				return false, frameText(wire.AudioChunk{UtteranceID: fmt.Sprintf("u%d", r.IntN(40)), Data: tone[:320]})
			})
		},
		// Utterances that are started and cancelled, acknowledgements and lost audio for arbitrary numbers, unknown
		// messages.
		func(_ context.Context, r *rand.Rand, send func(bool, []byte) bool) {
			repeat(5000, send, func(i int) (bool, []byte) {
				switch i % 6 {
				case 0:
					return false, frameText(wire.UtteranceStart{UtteranceID: fmt.Sprintf("%s%d", long, r.Uint32())})
				case 1:
					return true, tone[:320]
				case 2:
					return false, frameText(wire.SessionCancel{})
				case 3:
					return false, frameText(wire.SessionResultAck{Seq: r.Int64()})
				case 4:
					return false, frameText(wire.AudioGone{UtteranceIndex: r.Int64N(1000)})
				}
				return false, []byte(`{"type":"` + strings.Repeat("y", 1000) + `"}`)
			})
		},
		// Silence without end, with pauses after which pings are sent.
		func(ctx context.Context, _ *rand.Rand, send func(bool, []byte) bool) {
			silence := make([]byte, 3200)
			for range 10 {
				if !send(true, tone) || !send(true, silence) || !run.Sleep(ctx, 1200*time.Millisecond) {
					return
				}
			}
		},
		// JSON of the maximum size.
		func(_ context.Context, _ *rand.Rand, send func(bool, []byte) bool) {
			large := []byte(`{"type":"session_update","src_lang":"` + strings.Repeat("z", 250<<10) + `"}`)
			repeat(200, send, func(int) (bool, []byte) { return false, large })
		},
	}
}

// attack connects, as the present session or as a new one, and runs a pattern. It reads slowly.
func (a *abuser) attack(ctx context.Context, r *rand.Rand, do attackPattern) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	conn, resp, err := websocket.Dial(ctx, a.url, &websocket.DialOptions{
		HTTPHeader: http.Header{"Authorization": {"Bearer " + a.token}}, Subprotocols: []string{wire.Subprotocol},
	})
	if err != nil {
		if resp != nil && resp.Body != nil {
			_, _ = io.Copy(io.Discard, resp.Body)
		}
		run.Sleep(ctx, 50*time.Millisecond)
		return
	}
	defer func() { _ = conn.CloseNow() }() // it may be closed already
	a.conns.Add(1)
	conn.SetReadLimit(-1)
	const secret = "the same secret for interval start"
	first := frameText(wire.SessionStart{SessionID: "room-1", ResumeToken: secret, Langs: []string{"en", "es"}, Audio: wire.SessionAudio{SampleRate: clustertest.SampleRate}})
	if r.IntN(4) > 0 {
		first = frameText(wire.SessionResume{SessionID: "room-1", ResumeToken: secret})
	}
	if conn.Write(ctx, websocket.MessageText, first) != nil {
		return
	}
	go func() {
		for n := 0; ; n++ {
			_, body, err := conn.Read(ctx)
			if err != nil {
				return
			}
			if typ, err := wire.TypeOf(body); err == nil && typ == (wire.UtteranceCommitted{}).Type() {
				a.utterances.Add(1)
			}
			if n == 50 {
				run.Sleep(ctx, time.Second) // a slow reader
				n = 0
			}
		}
	}()
	do(ctx, r, func(isBinary bool, data []byte) bool {
		typ := websocket.MessageText
		if isBinary {
			typ = websocket.MessageBinary
		}
		a.messages.Add(1)
		a.bytes.Add(int64(len(data)))
		return conn.Write(ctx, typ, data) == nil
	})
}

// mintAsOperator mints a session token as the instances would for an operator.
func mintAsOperator(keys *auth.Keyring, session core.SessionID, tenant core.TenantID, ttl time.Duration) (string, error) {
	operator, reason := auth.NewAuthenticator(keys, nil).Authenticate(operatorKey)
	if reason != "" {
		return "", errors.New(string(reason))
	}
	token, _, err := keys.MintSession(operator, session, tenant, ttl, time.Time{})
	return token, err
}
