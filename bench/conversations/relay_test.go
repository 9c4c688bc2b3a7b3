package conversations

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/scheduler"
	"github.com/lingua-scheduler/lingua/internal/socket"
	"github.com/lingua-scheduler/lingua/wire"
)

const (
	relayNodes, relaySlots, relaySpeakers = 50, 4, 64
	turns                                 = 9
)

// BenchmarkRelay lets the scheduler and a bare relay take turns: 64 sessions send an utterance and wait for its result,
// over 50 nodes of four slots that confirm and finish at once. The bare relay passes the same frames to a random node
// over the same kind of connection, and keeps account of nothing.
func BenchmarkRelay(b *testing.B) {
	ours, bare := besideScheduler(b), besideRelay(b)
	for b.Loop() {
		var rates [2][]float64
		var ratio []float64
		for range turns {
			for i, c := range []*contest{ours, bare} {
				rates[i] = append(rates[i], c.run(b, time.Second))
			}
			ratio = append(ratio, rates[0][len(rates[0])-1]/rates[1][len(rates[1])-1])
		}
		b.ReportMetric(median(rates[0]), "lingua-utterances/s")
		b.ReportMetric(median(rates[1]), "bare-utterances/s")
		b.ReportMetric(median(ratio), "of-bare")
		b.ReportMetric(float64(ours.over.Load()), "lingua-over-slots")
		b.ReportMetric(float64(bare.over.Load()), "bare-over-slots")
	}
	b.ReportMetric(0, "ns/op")
}

func median(list []float64) float64 {
	sorted := slices.Sorted(slices.Values(list))
	return sorted[len(sorted)/2]
}

// contest is a server with its nodes and speakers.
type contest struct {
	speakers []*websocket.Conn
	over     atomic.Int64 // deliveries to a node whose slots were taken
}

// besideScheduler is the scheduler.
func besideScheduler(b *testing.B) *contest {
	cfg := config.Default()
	cfg.Server.Port, cfg.Server.ShutdownSeconds = 0, 0
	cfg.Scheduler.Nodes.PresenceTTLMS, cfg.Scheduler.Dispatch.HeartbeatStaleMS = 600_000, 600_000 // nobody sends heartbeats here
	cfg.Scheduler.Sessions.AheadMS, cfg.Scheduler.Sessions.PerAddress, cfg.Server.PerAddress = 600_000, 0, 0
	cfg.Scheduler.TaskBinding.LeaseSeconds = 6
	s, err := scheduler.New(b.Context(), cfg, wire.VersionResponse{}, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		b.Fatal(err)
	}
	l, err := s.Listen(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, l) }()
	b.Cleanup(func() {
		stop()
		<-ended
	})
	return populate(b, l.Addr())
}

// besideRelay is a server that knows nodes and sessions and passes on what they say.
func besideRelay(b *testing.B) *contest {
	hall := socket.NewHub(socket.Options{Log: slog.New(slog.DiscardHandler)})
	r := &relay{waits: make(map[string]*socket.Conn)}
	mux := http.NewServeMux()
	mux.HandleFunc("/ws/node", func(w http.ResponseWriter, req *http.Request) {
		if c, err := hall.Accept(w, req); err == nil {
			go r.node(c)
		}
	})
	mux.HandleFunc("/ws/session", func(w http.ResponseWriter, req *http.Request) {
		if c, err := hall.Accept(w, req); err == nil {
			go r.session(c)
		}
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: time.Second}
	go func() { _ = srv.Serve(l) }()
	ctx, stop := context.WithCancel(context.Background())
	go hall.Run(ctx)
	b.Cleanup(func() {
		_ = srv.Close()
		_ = hall.Close(ctx)
		stop()
	})
	return populate(b, l.Addr())
}

// relay passes frames on.
type relay struct {
	mu    sync.Mutex
	nodes []*socket.Conn
	waits map[string]*socket.Conn
	made  atomic.Int64
}

func (r *relay) node(c *socket.Conn) {
	if _, err := c.Read(); err != nil {
		return
	}
	c.Send(wire.NodeRegisterAck{Status: "registered"})
	r.mu.Lock()
	r.nodes = append(r.nodes, c)
	r.mu.Unlock()
	for {
		m, err := c.Read()
		if err != nil {
			return
		}
		var in wire.JobResult
		if json.Unmarshal(m.Data, &in) != nil || in.Result == nil {
			continue // the ACK
		}
		r.mu.Lock()
		to := r.waits[in.JobID]
		delete(r.waits, in.JobID)
		r.mu.Unlock()
		c.Send(wire.JobResultAck{ActiveJob: in.ActiveJob, Accepted: true})
		to.Send(wire.SessionResult{JobID: in.JobID, Result: in.Result})
	}
}

func (r *relay) session(c *socket.Conn) {
	if _, err := c.Read(); err != nil {
		return
	}
	c.Send(wire.SessionStarted{})
	var sound []byte
	for {
		m, err := c.Read()
		if err != nil {
			return
		}
		if m.Binary {
			sound = append(sound[:0], m.Data...)
			continue
		}
		job := wire.ActiveJob{JobID: fmt.Sprintf("job-%d", r.made.Add(1)), AttemptID: 1}
		r.mu.Lock()
		r.waits[job.JobID] = c
		to := r.nodes[rand.IntN(len(r.nodes))]
		r.mu.Unlock()
		c.Send(wire.UtteranceCommitted{JobID: job.JobID})
		to.Send(wire.JobAssign{JobID: job.JobID, AttemptID: 1, Audio: &wire.Audio{Bytes: int64(len(sound))}})
		frame, err := wire.AppendBinary(nil, &wire.BinaryHeader{Kind: wire.KindAudio, ActiveJob: job, Last: true}, sound)
		if err != nil {
			panic(err)
		}
		to.SendBinary(frame)
	}
}

// populate connects nodes and speakers.
func populate(b *testing.B, at net.Addr) *contest {
	c := &contest{}
	for i := range relayNodes {
		ws := dial(b, at, "/ws/node")
		say(b, ws, fmt.Sprintf(`{"type":"node_register","node_id":"n%d","semantic_langs":["en","es"],"max_concurrent_jobs":%d,"active":[]}`, i, relaySlots))
		hear(b, ws, "node_register_ack")
		go c.work(ws)
	}
	for range relaySpeakers {
		ws := dial(b, at, "/ws/session")
		say(b, ws, `{"type":"session_start","langs":["en","es"]}`)
		hear(b, ws, "session_started")
		c.speakers = append(c.speakers, ws)
	}
	return c
}

func dial(b *testing.B, at net.Addr, path string) *websocket.Conn {
	ws, _, err := websocket.Dial(b.Context(), "ws://"+at.String()+path, &websocket.DialOptions{Subprotocols: []string{wire.Subprotocol}})
	if err != nil {
		b.Fatal(err)
	}
	ws.SetReadLimit(-1)
	b.Cleanup(func() { _ = ws.CloseNow() })
	return ws
}

func say(b *testing.B, ws *websocket.Conn, text string) {
	if err := ws.Write(context.Background(), websocket.MessageText, []byte(text)); err != nil {
		b.Error(err)
	}
}

// hear reads until a frame of a type comes, and returns it.
func hear(b *testing.B, ws *websocket.Conn, typ string) []byte {
	for {
		_, data, err := ws.Read(context.Background())
		if err != nil {
			b.Error(err)
			return nil
		}
		if strings.HasPrefix(string(data), `{"type":"`+typ+`"`) {
			return data
		}
	}
}

// work is a node: it confirms each job as it comes and brings the result when it has the audio.
func (c *contest) work(ws *websocket.Conn) {
	open := 0
	for {
		kind, data, err := ws.Read(context.Background())
		if err != nil {
			return
		}
		if kind == websocket.MessageText {
			var in wire.JobAssign
			if !strings.HasPrefix(string(data), `{"type":"job_assign"`) || json.Unmarshal(data, &in) != nil {
				if strings.HasPrefix(string(data), `{"type":"job_result_ack"`) {
					open--
				}
				continue
			}
			if open++; open > relaySlots {
				c.over.Add(1)
			}
			_ = ws.Write(context.Background(), websocket.MessageText, fmt.Appendf(nil, `{"type":"job_ack","job_id":%q,"attempt_id":%d}`, in.JobID, in.AttemptID))
			continue
		}
		h, _, err := wire.ReadBinary(data)
		if err != nil {
			continue
		}
		_ = ws.Write(context.Background(), websocket.MessageText,
			fmt.Appendf(nil, `{"type":"job_result","job_id":%q,"attempt_id":%d,"result":{"text_src":"hello","text_tgt":"hola"}}`, h.JobID, h.AttemptID))
	}
}

// run lets everybody speak for a while and returns utterances a second.
func (c *contest) run(b *testing.B, during time.Duration) float64 {
	var done atomic.Int64
	var all sync.WaitGroup
	began := time.Now()
	for _, ws := range c.speakers {
		all.Go(func() {
			for time.Since(began) < during {
				if err := ws.Write(context.Background(), websocket.MessageBinary, speech); err != nil {
					b.Error(err)
					return
				}
				say(b, ws, `{"type":"audio_chunk","is_final":true}`)
				if hear(b, ws, "result") == nil {
					return
				}
				done.Add(1)
			}
		})
	}
	all.Wait()
	return float64(done.Load()) / time.Since(began).Seconds()
}
