package conversations

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/lingua-scheduler/lingua/bench/stats"
	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/scheduler"
	"github.com/lingua-scheduler/lingua/internal/socket"
	"github.com/lingua-scheduler/lingua/test/fleet"
	"github.com/lingua-scheduler/lingua/wire"
)

const (
	relayNodes, relaySlots, relaySessions = 50, 4, 64
	relayTurns                            = 9
)

// BenchmarkRelay compares the scheduler with a bare relay, in turn: 64 sessions send an utterance and wait for its result,
// over 50 nodes of four slots that acknowledge and finish at once. The bare relay forwards the same frames to a random node
// over the same kind of connection, without any accounting.
func BenchmarkRelay(b *testing.B) {
	ours, bare := startSchedulerServer(b), startRelayServer(b)
	for b.Loop() {
		var rates [2][]float64
		var ratio []float64
		for range relayTurns {
			for i, c := range []*benchServer{ours, bare} {
				rates[i] = append(rates[i], c.measureRate(b, time.Second))
			}
			ratio = append(ratio, rates[0][len(rates[0])-1]/rates[1][len(rates[1])-1])
		}
		b.ReportMetric(stats.Median(rates[0]), "lingua-utterances/s")
		b.ReportMetric(stats.Median(rates[1]), "bare-utterances/s")
		b.ReportMetric(stats.Median(ratio), "of-bare")
		b.ReportMetric(float64(ours.overAssigned.Load()), "lingua-over-slots")
		b.ReportMetric(float64(bare.overAssigned.Load()), "bare-over-slots")
	}
	b.ReportMetric(0, "ns/op")
}

// benchServer is a server with its nodes and sessions.
type benchServer struct {
	sessions     []*websocket.Conn
	overAssigned atomic.Int64 // deliveries to a node without a free slot
}

// startSchedulerServer starts the scheduler.
func startSchedulerServer(b *testing.B) *benchServer {
	cfg := config.Default()
	cfg.Server.Port, cfg.Server.ShutdownSeconds = 0, 0
	cfg.Scheduler.Nodes.PresenceTTLMS, cfg.Scheduler.Dispatch.HeartbeatStaleMS = 600_000, 600_000 // there are no heartbeats here
	cfg.Scheduler.Sessions.AheadMS, cfg.Scheduler.Sessions.PerAddress, cfg.Server.PerAddress = 600_000, 0, 0
	cfg.Scheduler.Sessions.UtteranceRate = 1_000_000
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
	return connectClients(b, l.Addr())
}

// startRelayServer starts the bare relay.
func startRelayServer(b *testing.B) *benchServer {
	hub := socket.NewHub(socket.Options{Log: slog.New(slog.DiscardHandler)})
	r := &relay{waiting: make(map[string]*socket.Conn)}
	mux := http.NewServeMux()
	mux.HandleFunc("/ws/node", func(w http.ResponseWriter, req *http.Request) {
		if c, err := hub.Accept(w, req); err == nil {
			go r.serveNode(c)
		}
	})
	mux.HandleFunc("/ws/session", func(w http.ResponseWriter, req *http.Request) {
		if c, err := hub.Accept(w, req); err == nil {
			go r.serveSession(c)
		}
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: time.Second}
	go func() { _ = srv.Serve(l) }()
	ctx, stop := context.WithCancel(context.Background())
	go hub.Run(ctx)
	b.Cleanup(func() {
		_ = srv.Close()
		_ = hub.Close(ctx)
		stop()
	})
	return connectClients(b, l.Addr())
}

// relay forwards frames between nodes and sessions.
type relay struct {
	mu       sync.Mutex
	nodes    []*socket.Conn
	waiting  map[string]*socket.Conn
	jobCount atomic.Int64
}

func (r *relay) serveNode(c *socket.Conn) {
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
		to := r.waiting[in.JobID]
		delete(r.waiting, in.JobID)
		r.mu.Unlock()
		c.Send(wire.JobResultAck{ActiveJob: in.ActiveJob, Accepted: true})
		to.Send(wire.SessionResult{JobID: in.JobID, Result: in.Result})
	}
}

func (r *relay) serveSession(c *socket.Conn) {
	if _, err := c.Read(); err != nil {
		return
	}
	c.Send(wire.SessionStarted{})
	var audio []byte
	for {
		m, err := c.Read()
		if err != nil {
			return
		}
		if m.Binary {
			audio = append(audio[:0], m.Data...)
			continue
		}
		job := wire.ActiveJob{JobID: fmt.Sprintf("job-%d", r.jobCount.Add(1)), AttemptID: 1}
		r.mu.Lock()
		r.waiting[job.JobID] = c
		to := r.nodes[rand.IntN(len(r.nodes))]
		r.mu.Unlock()
		c.Send(wire.UtteranceCommitted{JobID: job.JobID})
		to.Send(wire.JobAssign{JobID: job.JobID, AttemptID: 1, Audio: &wire.Audio{Bytes: int64(len(audio))}})
		frame, err := wire.AppendBinary(nil, &wire.BinaryHeader{Kind: wire.KindAudio, ActiveJob: job, Last: true}, audio)
		if err != nil {
			panic(err)
		}
		to.SendBinary(frame)
	}
}

// connectClients connects nodes and sessions.
func connectClients(b *testing.B, at net.Addr) *benchServer {
	c := &benchServer{}
	for i := range relayNodes {
		ws := fleet.Connect(b, "http://"+at.String(), "/ws/node", "").Conn
		writeText(b, ws, fmt.Sprintf(`{"type":"node_register","node_id":"n%d","semantic_langs":["en","es"],"max_concurrent_jobs":%d,"active":[]}`, i, relaySlots))
		readFrame(b, ws, "node_register_ack")
		go c.runNode(ws)
	}
	for range relaySessions {
		ws := fleet.Connect(b, "http://"+at.String(), "/ws/session", "").Conn
		writeText(b, ws, `{"type":"session_start","langs":["en","es"]}`)
		readFrame(b, ws, "session_started")
		c.sessions = append(c.sessions, ws)
	}
	return c
}

func writeText(b *testing.B, ws *websocket.Conn, text string) {
	if err := ws.Write(context.Background(), websocket.MessageText, []byte(text)); err != nil {
		b.Error(err)
	}
}

// readFrame reads until a frame of a type arrives, and returns it.
func readFrame(b *testing.B, ws *websocket.Conn, typ string) []byte {
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

// runNode is a node: it acknowledges each job at once and sends the result when it has the audio. Package node would cost more than the relay
// that is measured.
func (c *benchServer) runNode(ws *websocket.Conn) {
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
				c.overAssigned.Add(1)
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

// measureRate has all sessions send utterances for a while and returns utterances a second.
func (c *benchServer) measureRate(b *testing.B, during time.Duration) float64 {
	var done atomic.Int64
	var all sync.WaitGroup
	began := time.Now()
	for _, ws := range c.sessions {
		all.Go(func() {
			for time.Since(began) < during {
				if err := ws.Write(context.Background(), websocket.MessageBinary, tone); err != nil {
					b.Error(err)
					return
				}
				writeText(b, ws, `{"type":"audio_chunk","is_final":true}`)
				if readFrame(b, ws, "result") == nil {
					return
				}
				done.Add(1)
			}
		})
	}
	all.Wait()
	return float64(done.Load()) / time.Since(began).Seconds()
}
