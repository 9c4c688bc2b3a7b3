package node_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"

	"github.com/coder/websocket"

	"github.com/lingua-scheduler/lingua/node"
	"github.com/lingua-scheduler/lingua/wire"
)

func ExampleRun() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	scheduler := httptest.NewServer(oneJob(stop)) // ends the example when it has the result
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
			return node.Result{}, node.Fail("NOTHING_HEARD")
		}
		return node.Result{TextSrc: "hello", TextTgt: "hola", StagesMS: map[string]int64{"asr": 120, "nmt": 45}}, nil
	})
	fmt.Println("Run:", err)
	// Output:
	// job_ack
	// job_partial
	// job_result {"latency":{"asr":120,"nmt":45},"text_src":"hello","text_tgt":"hola"}
	// Run: <nil>
}

// oneJob is a scheduler with one job, which prints what it is told.
func oneJob(done func()) http.HandlerFunc {
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
				send(wire.JobAssign{JobID: key.JobID, AttemptID: key.AttemptID, SrcLang: "en", TgtLang: "es", Partials: true, Audio: &wire.Audio{}})
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
