package socket_test

import (
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/socket"
)

// FuzzIncomingBytes: for any incoming bytes, the server sends valid frames and the connection ends.
func FuzzIncomingBytes(f *testing.F) {
	for _, seed := range [][]byte{
		nil, frame(fin|text, "hello"), frame(text, "a"), encodeClose(1000, "bye"), unmaskedFrame(fin|text, "x"), headerOnly(fin|text, 1<<63),
		append(frame(text, "a"), frame(fin|ping, "b")...), append(encodeClose(1001, ""), frame(fin|text, "c")...), frame(fin|text, strings.Repeat("x", 2000)),
	} {
		f.Add(seed)
	}
	hub := socket.NewHub(socket.Options{MaxFrame: 1000, Log: slog.New(slog.DiscardHandler)})
	conns := make(chan *socket.Conn, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := hub.Accept(w, r)
		if err != nil {
			return
		}
		conns <- c
		go func() {
			for {
				m, err := c.Read()
				if err != nil {
					return
				}
				echo(c, m)
			}
		}()
	}))
	f.Cleanup(func() {
		_ = hub.Close(f.Context())
		srv.Close()
	})
	f.Fuzz(func(t *testing.T, b []byte) {
		c := dial(t, strings.TrimPrefix(srv.URL, "http://"))
		if _, err := c.Write(b); err != nil {
			t.Fatal(err)
		}
		c.Conn.(*net.TCPConn).CloseWrite()
		for {
			_, err := readFrame(c.r)
			if errors.Is(err, errInvalidFrame) || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatal(err)
			}
			if err != nil {
				break
			}
		}
		select {
		case <-(<-conns).Done():
		case <-time.After(testTimeout):
			t.Fatal("the connection does not end")
		}
	})
}
