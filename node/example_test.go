package node_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"

	"github.com/coder/websocket"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/lingua-scheduler/lingua/node"
	"github.com/lingua-scheduler/lingua/wire"
)

func ExampleRun() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	scheduler := httptest.NewServer(oneJobScheduler(stop)) // stops the node after the result
	defer scheduler.Close()

	err := node.Run(ctx, node.Config{
		URL:         scheduler.URL,
		Slots:       2,
		Declaration: wire.Declaration{SemanticLangs: []string{"en"}, TTSLangs: []string{"es"}},
		Log:         slog.New(slog.DiscardHandler),
	}, func(ctx context.Context, job *node.Job) (node.Result, error) {
		audio, err := job.Audio(ctx)
		if err != nil {
			return node.Result{}, err
		}
		job.Partial(node.Partial{Stage: "asr", TextSrc: "hello"})
		if len(audio) == 0 {
			return node.Result{}, node.Fail("NO_SPEECH")
		}
		return node.Result{TextSrc: "hello", TextTgt: "hola", StagesMS: map[string]int64{"asr": 120, "nmt": 45}}, nil
	})
	fmt.Println("Run:", err)
	// Output:
	// job_ack
	// job_partial
	// job_result {"latency":{"asr":120,"nmt":45},"text_src":"hello","text_tgt":"hola"}
	// node_leave
	// Run: <nil>
}

// oneJobScheduler assigns one job and prints the messages of the node.
func oneJobScheduler(done func()) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{wire.Subprotocol}})
		if err != nil {
			return
		}
		defer conn.CloseNow()
		ctx, key := context.Background(), wire.ActiveJob{JobID: "j-1", AttemptID: 1}
		send := func(f wire.Frame) {
			text, _ := wire.EncodeFrame(f)
			_ = conn.Write(ctx, websocket.MessageText, text)
		}
		for {
			_, text, err := conn.Read(ctx)
			if err != nil {
				return
			}
			switch typ, _ := wire.TypeOf(text); typ {
			case "node_register":
				send(wire.NodeRegisterAck{NodeID: "n-1", Epoch: 1, HeartbeatIntervalMS: 60_000, Status: "registered"})
				send(wire.JobAssign{
					JobID: key.JobID, AttemptID: key.AttemptID, SrcLang: "en", TgtLang: "es", Partials: true, Audio: &wire.Audio{},
					Traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
				})
				frame, _ := wire.AppendBinary(nil, &wire.BinaryHeader{Kind: wire.KindAudio, ActiveJob: key, Last: true}, []byte{1, 2, 3})
				_ = conn.Write(ctx, websocket.MessageBinary, frame)
			case "job_result":
				var result wire.JobResult
				_ = wire.Decode(text, &result)
				fmt.Println(typ, string(result.Result))
				send(wire.JobResultAck{ActiveJob: key, Accepted: true})
				done()
			case "node_heartbeat":
			default:
				fmt.Println(typ)
			}
		}
	}
}

// A node that traces: its spans are in the trace of the utterance. A real one exports them with an OTLP exporter.
func ExampleConfig_tracing() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	scheduler := httptest.NewServer(oneJobScheduler(stop))
	defer scheduler.Close()

	exporter := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter))
	err := node.Run(ctx, node.Config{
		URL: scheduler.URL, Slots: 2, Declaration: wire.Declaration{SemanticLangs: []string{"en"}},
		Log: slog.New(slog.DiscardHandler), TracerProvider: provider,
	}, func(ctx context.Context, _ *node.Job) (node.Result, error) {
		_, span := provider.Tracer("my-node").Start(ctx, "asr")
		defer span.End()
		return node.Result{TextSrc: "hello", TextTgt: "hola"}, nil
	})
	fmt.Println("Run:", err)
	for _, s := range exporter.GetSpans() {
		fmt.Println(s.Name, "in", s.SpanContext.TraceID())
	}
	// Output:
	// job_ack
	// job_result {"text_src":"hello","text_tgt":"hola"}
	// node_leave
	// Run: <nil>
	// asr in 0af7651916cd43dd8448eb211c80319c
	// node.job in 0af7651916cd43dd8448eb211c80319c
}

// A node that stops when an operator drains it, after it has finished its jobs. A supervisor then starts the new version.
func ExampleConfig_onDrain() {
	scheduler := httptest.NewServer(http.HandlerFunc(drainingScheduler))
	defer scheduler.Close()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()

	err := node.Run(ctx, node.Config{
		URL: scheduler.URL, Slots: 4, Log: slog.New(slog.DiscardHandler),
		Declaration: wire.Declaration{SemanticLangs: []string{"en", "es"}},
		OnDrain: func(drained bool) {
			fmt.Println("drained:", drained)
			stop()
		},
	}, func(context.Context, *node.Job) (node.Result, error) { return node.Result{}, node.ErrBusy })
	fmt.Println("Run:", err)
	// Output:
	// drained: true
	// Run: <nil>
}

// drainingScheduler drains every node that connects.
func drainingScheduler(w http.ResponseWriter, r *http.Request) {
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{wire.Subprotocol}})
	if err != nil {
		return
	}
	defer conn.CloseNow()
	for _, f := range []wire.Frame{wire.NodeRegisterAck{NodeID: "n-1", Epoch: 1}, wire.Drain{Drained: true}} {
		text, _ := wire.EncodeFrame(f)
		_ = conn.Write(r.Context(), websocket.MessageText, text)
	}
	for err == nil {
		_, _, err = conn.Read(r.Context())
	}
}

// A node whose GPU overheats keeps its jobs and asks for no more until it has cooled down.
func ExampleNode_Update() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	n, err := node.New(node.Config{
		URL: "http://127.0.0.1:5010", Slots: 4, Log: slog.New(slog.DiscardHandler),
		Declaration: wire.Declaration{SemanticLangs: []string{"en", "es"}},
	}, func(context.Context, *node.Job) (node.Result, error) { return node.Result{}, node.ErrBusy })
	if err != nil {
		fmt.Println(err)
		return
	}
	ended := make(chan error)
	go func() { ended <- n.Run(ctx) }()

	fmt.Println("hot:", n.Update(wire.Declaration{Health: "degraded"}))
	fmt.Println("cool:", n.Update(wire.Declaration{Health: "ready"}))
	fmt.Println("odd:", n.Update(wire.Declaration{Health: "lukewarm"}))

	stop()
	fmt.Println("Run:", <-ended)
	// Output:
	// hot: <nil>
	// cool: <nil>
	// odd: node: Health is "lukewarm"; it may be ready, degraded, draining or offline
	// Run: <nil>
}
