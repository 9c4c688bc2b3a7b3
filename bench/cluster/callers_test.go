package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/lingua-scheduler/lingua/wire"
)

// register makes a node over HTTP.
func register(tb testing.TB, with *instance) {
	tb.Helper()
	slots, url := 1, "http://127.0.0.1:9/jobs"
	post(tb, with, "/v1/node/register", wire.RegisterRequest{NodeID: "by-http", Declaration: wire.Declaration{
		SemanticLangs: []string{"ja", "ko"}, MaxConcurrentJobs: &slots, CallbackURL: &url,
	}}, nil)
}

// beatHTTP sends heartbeats over HTTP that say what one says that has no news.
func beatHTTP(tb testing.TB, with *instance, times int) {
	tb.Helper()
	half, none := 0.5, 0
	for range times {
		post(tb, with, "/v1/node/heartbeat", wire.HeartbeatRequest{NodeID: "by-http", Declaration: wire.Declaration{
			Health: "ready", CurrentLoad: &wire.Load{CPU: &half, GPU: &half, Memory: &half}, CurrentJobs: &none, Active: []wire.ActiveAttempt{},
		}}, nil)
	}
}

// dispatchJobs sends jobs without a session, one after the other, and returns when a node has done the last.
func dispatchJobs(tb testing.TB, with *instance, c *crew, times int) {
	tb.Helper()
	limit := time.NewTimer(time.Minute)
	defer limit.Stop()
	for range times {
		post(tb, with, "/v1/dispatch/f2f", wire.DispatchRequest{SessionID: "room", SrcLang: "en", TgtLang: "es", AudioRef: "blob://a"}, nil)
		select {
		case <-c.alone:
		case <-limit.C:
			tb.Fatal("a job was not done")
		}
	}
}

// post sends a body that must be taken.
func post(tb testing.TB, to *instance, path string, body, into any) {
	tb.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		tb.Fatal(err)
	}
	resp, err := http.Post(to.url+path, "application/json", bytes.NewReader(text))
	if err != nil {
		tb.Fatal(err)
	}
	defer resp.Body.Close()
	said, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		tb.Fatalf("%s: %s %s %v", path, resp.Status, said, err)
	}
	if into != nil {
		if err := json.Unmarshal(said, into); err != nil {
			tb.Fatal(err)
		}
	}
}

// beater is a node that sends heartbeats as fast as it is told to.
type beater struct {
	ws    *websocket.Conn
	epoch int64
	seq   uint64
}

// connectNode connects one, until the test ends.
func connectNode(tb testing.TB, with *instance) *beater {
	tb.Helper()
	ws, _, err := websocket.Dial(tb.Context(), with.url+"/ws/node", &websocket.DialOptions{Subprotocols: []string{wire.Subprotocol}})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = ws.CloseNow() })
	b := &beater{ws: ws}
	b.say(tb, `{"type":"node_register","node_id":"by-socket","semantic_langs":["ja","ko"],"max_concurrent_jobs":1,"active":[]}`)
	var ack wire.NodeRegisterAck
	b.hear(tb, wire.NodeRegisterAck{}.Type(), &ack)
	b.epoch = ack.Epoch
	return b
}

func (b *beater) say(tb testing.TB, text string) {
	tb.Helper()
	if err := b.ws.Write(context.Background(), websocket.MessageText, []byte(text)); err != nil {
		tb.Fatal(err)
	}
}

// hear reads until a frame of a type comes.
func (b *beater) hear(tb testing.TB, typ wire.FrameType, into any) {
	tb.Helper()
	for {
		_, data, err := b.ws.Read(context.Background())
		if err != nil {
			tb.Fatal(err)
		}
		if got, err := wire.TypeOf(data); err == nil && got == typ {
			if err := json.Unmarshal(data, into); err != nil {
				tb.Fatal(err)
			}
			return
		}
	}
}

// send sends heartbeats that say what one says that has no news. They are not answered, but a word that nobody knows is,
// and in its turn.
func (b *beater) send(tb testing.TB, times int) {
	tb.Helper()
	for range times {
		b.seq++
		b.say(tb, fmt.Sprintf(`{"type":"node_heartbeat","epoch":%d,"hb_seq":%d,"health":"ready","current_load":{"cpu":0.5,"gpu":0.5,"memory":0.5},"current_jobs":0,"active":[]}`, b.epoch, b.seq))
	}
	b.say(tb, `{"type":"is_that_all"}`)
	b.hear(tb, wire.ErrorFrame{}.Type(), new(wire.ErrorFrame))
}
