package drill

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
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
	"github.com/lingua-scheduler/lingua/internal/backoff"
	"github.com/lingua-scheduler/lingua/node"
	"github.com/lingua-scheduler/lingua/wire"
)

var abuseFor = flag.Duration("abuse-for", 6*time.Second, "how long TestOneTokenIsBounded goes on")

// What one session may cost at most with the settings as shipped, beside what the instance and Redis take without it.
const (
	abuseInstance = 96 << 20
	abuseRedis    = 48 << 20
)

// TestOneTokenIsBounded sends the worst that one session token allows, over several connections at once: what the instance and
// Redis need for it stays within its bounds. In full:
//
//	go test -count=1 -v -timeout 20m -run TestOneTokenIsBounded ./internal/drill -abuse-for 10m
func TestOneTokenIsBounded(t *testing.T) {
	if *drillTopology != "standalone" {
		t.Skip("what is measured is one server's memory")
	}
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	keys, err := auth.New(auth.Config{OperatorKeys: []string{operatorKey}, Secret: sessionSecret})
	if err != nil {
		t.Fatal(err)
	}
	c := musterWith(t, path, rand.New(rand.NewPCG(1, 2)), []byte("[auth]\noperator_keys = [\""+operatorKey+"\"]\nsession_secret = \""+sessionSecret+"\"\n"))
	answerAtLength(t, c.nodes.url())
	token, err := keys.Mint(auth.SessionGrant{Session: "room-1", Tenant: "acme"}, time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	a := &abuse{t: t, url: strings.Replace(c.instances[0].url(), "http", "ws", 1) + "/ws/session", token: token}
	before := a.measure(c)
	ctx, stop := context.WithTimeout(t.Context(), *abuseFor)
	defer stop()
	var all sync.WaitGroup
	// A second connection of the same session replaces the first, so the tricks take turns, and only now and then two meet.
	for n, every := range []time.Duration{0, 3 * time.Second} {
		all.Go(func() {
			r := rand.New(rand.NewPCG(uint64(n), 7))
			for turn := 0; ctx.Err() == nil; turn++ {
				a.attack(ctx, r, a.tricks()[turn%len(a.tricks())])
				backoff.Sleep(ctx, every)
			}
		})
	}
	most := before
	for ctx.Err() == nil {
		backoff.Sleep(ctx, 500*time.Millisecond)
		most = most.with(a.measure(c))
	}
	all.Wait()
	t.Logf("%v, %d connections, %d messages, %d MiB sent, %d utterances: the instance took %d MiB more than before (at most %d), Redis %d MiB more (at most %d)",
		*abuseFor, a.conns.Load(), a.messages.Load(), a.bytes.Load()>>20, a.utterances.Load(),
		(most.instance-before.instance)>>20, abuseInstance>>20, (most.redis-before.redis)>>20, abuseRedis>>20)
	if most.instance-before.instance > abuseInstance || most.redis-before.redis > abuseRedis {
		t.Error("that is more than a session may cost")
	}
	if a.messages.Load() < 1000 || a.utterances.Load() == 0 {
		t.Error("that proves nothing")
	}
}

// answerAtLength runs a node that answers at once with what a minute of speech is at most.
func answerAtLength(t *testing.T, url string) {
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	t.Cleanup(func() { stop(); <-done })
	go func() {
		defer close(done)
		err := node.Run(ctx, node.Config{
			URL: url, ID: "fast", Slots: 64, Token: operatorKey, Log: slog.New(slog.DiscardHandler), ShutdownTimeout: time.Millisecond,
			Declaration: wire.Declaration{SemanticLangs: []string{"en", "es"}, InstalledModels: models(39, 96)},
		}, func(context.Context, *node.Job) (node.Result, error) {
			return node.Result{TextSrc: strings.Repeat("word ", 200), TextTgt: strings.Repeat("palabra ", 200)}, nil
		})
		if err != nil && ctx.Err() == nil {
			t.Error(err)
		}
	}()
}

// abuse is the run of that test.
type abuse struct {
	t     *testing.T
	url   string
	token string

	conns, messages, bytes, utterances atomic.Int64
}

// memory is what the instance and Redis take, in bytes.
type memory struct{ instance, redis int64 }

func (m memory) with(other memory) memory {
	return memory{max(m.instance, other.instance), max(m.redis, other.redis)}
}

// measure reads the memory that the instance's process holds, and what Redis says of itself.
func (a *abuse) measure(c *cluster) memory {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.instances[0].proc.Pid))
	if err != nil {
		a.t.Fatal(err)
	}
	info, err := c.redis.servers()[0].Do("INFO", "memory")
	if err != nil {
		a.t.Fatal(err)
	}
	return memory{
		instance: 1024 * number(a.t, string(status), "VmRSS:"),
		redis:    number(a.t, fmt.Sprint(info), "used_memory:"),
	}
}

// number reads the number that follows a name.
func number(t *testing.T, text, name string) int64 {
	_, rest, ok := strings.Cut(text, name)
	digits := strings.TrimLeft(rest, " \t")
	end := strings.IndexFunc(digits, func(r rune) bool { return r < '0' || r > '9' })
	if !ok || end <= 0 {
		t.Fatalf("there is no %s in %.100q", name, text)
	}
	n, err := strconv.ParseInt(digits[:end], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// trick is what is done over one connection. It returns when that is closed, or after a while.
type trick func(ctx context.Context, r *rand.Rand, send func(binary bool, data []byte) bool)

func frameText(f wire.Frame) []byte {
	text, err := wire.EncodeFrame(f)
	if err != nil {
		panic(err) // the frames are written here
	}
	return text
}

// models are names of models, so many of so many bytes.
func models(count, size int) []string {
	list := make([]string, count)
	for i := range list {
		list[i] = fmt.Sprintf("%0*d", size, i)
	}
	return list
}

// shuffled is a list in another order: to the scheduler, other options.
func shuffled(r *rand.Rand, list []string) []string {
	r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

func (a *abuse) tricks() []trick {
	long := strings.Repeat("x", 100)
	repeat := func(n int, send func(bool, []byte) bool, message func(i int) (bool, []byte)) {
		for i := range n {
			if !send(message(i)) {
				return
			}
		}
	}
	return []trick{
		// Utterances of one sample, each with a name and a request id as long as may be.
		func(_ context.Context, r *rand.Rand, send func(bool, []byte) bool) {
			repeat(5000, send, func(int) (bool, []byte) {
				id := fmt.Sprintf("%s%d", long, r.Uint32())
				return false, frameText(wire.AudioChunk{UtteranceID: id, RequestID: id, Data: []byte{1, 2}, IsFinal: true})
			})
		},
		// Options as large as they may be, and larger, with an utterance for each.
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
		// As much audio as fits, in one utterance that never ends.
		func(_ context.Context, _ *rand.Rand, send func(bool, []byte) bool) {
			large := make([]byte, 200<<10)
			repeat(500, send, func(int) (bool, []byte) { return true, large })
		},
		// Every frame names another utterance, so that each ends the one before it; some name ended ones.
		func(_ context.Context, r *rand.Rand, send func(bool, []byte) bool) {
			repeat(3000, send, func(int) (bool, []byte) {
				return false, frameText(wire.AudioChunk{UtteranceID: fmt.Sprintf("u%d", r.IntN(40)), Data: tone[:320]})
			})
		},
		// Utterances that are begun and given up, acknowledgements and lost audio of anything, unknown messages.
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
		// Silence that is kept open, and a pause now and then, so that pings are sent.
		func(ctx context.Context, _ *rand.Rand, send func(bool, []byte) bool) {
			silence := make([]byte, 3200)
			for range 10 {
				if !send(true, tone) || !send(true, silence) || !backoff.Sleep(ctx, 1200*time.Millisecond) {
					return
				}
			}
		},
		// Nothing but JSON as large as may be.
		func(_ context.Context, _ *rand.Rand, send func(bool, []byte) bool) {
			large := []byte(`{"type":"session_update","src_lang":"` + strings.Repeat("z", 250<<10) + `"}`)
			repeat(200, send, func(int) (bool, []byte) { return false, large })
		},
	}
}

// attack connects, as the session that is there or as a new one, and does a trick. Most of the time it does not read what
// it is sent.
func (a *abuse) attack(ctx context.Context, r *rand.Rand, do trick) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	conn, resp, err := websocket.Dial(ctx, a.url, &websocket.DialOptions{
		HTTPHeader: http.Header{"Authorization": {"Bearer " + a.token}}, Subprotocols: []string{wire.Subprotocol},
	})
	if err != nil {
		if resp != nil && resp.Body != nil {
			_, _ = io.Copy(io.Discard, resp.Body)
		}
		backoff.Sleep(ctx, 50*time.Millisecond)
		return
	}
	defer func() { _ = conn.CloseNow() }() // it may be closed
	a.conns.Add(1)
	conn.SetReadLimit(-1)
	const secret = "the same secret for every start"
	first := frameText(wire.SessionStart{SessionID: "room-1", ResumeToken: secret, Langs: []string{"en", "es"}, Audio: wire.SessionAudio{SampleRate: rate}})
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
				backoff.Sleep(ctx, time.Second) // it reads slowly
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
