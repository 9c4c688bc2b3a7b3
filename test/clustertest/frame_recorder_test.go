package clustertest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"
)

func TestRecorderSeesEveryTextMessage(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		c.SetReadLimit(-1)
		for {
			kind, data, err := c.Read(r.Context())
			if err != nil {
				return
			}
			_ = c.Write(r.Context(), kind, data)
		}
	}))
	defer srv.Close()
	var mu sync.Mutex
	recorded := make(map[bool][]string)
	base := &http.Transport{}
	defer base.CloseIdleConnections()
	recorder := &frameRecorder{transport: base, onText: func(_ int, sent bool, text []byte) {
		mu.Lock()
		defer mu.Unlock()
		recorded[sent] = append(recorded[sent], string(text))
	}}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c, _, err := websocket.Dial(ctx, srv.URL, &websocket.DialOptions{HTTPClient: &http.Client{Transport: recorder}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseNow()
	c.SetReadLimit(-1)
	want := []string{"", "a", strings.Repeat("b", 125), strings.Repeat("c", 126), strings.Repeat("d", 70_000)}
	echo := func(kind websocket.MessageType, text string) {
		if err := c.Write(ctx, kind, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if _, got, err := c.Read(ctx); err != nil || string(got) != text {
			t.Fatalf("%d bytes came back, %v", len(got), err)
		}
	}
	for _, text := range want {
		echo(websocket.MessageText, text)
		echo(websocket.MessageBinary, text+"{}")
	}
	mu.Lock()
	defer mu.Unlock()
	if diff := cmp.Diff(map[bool][]string{true: want, false: want}, recorded); diff != "" {
		t.Errorf("recorded, by whether it was sent (-want +got):\n%.500s", diff)
	}
}
