package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestHealthExitCodes checks the exit code and the message of each response.
func TestHealthExitCodes(t *testing.T) {
	t.Parallel()
	ready := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "" {
				t.Error("the request has a credential")
			}
			if r.URL.Path == "/healthz" {
				status, body = http.StatusOK, `{"status":"ok"}`
			}
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		}
	}
	for name, c := range map[string]struct {
		args    []string
		handler http.HandlerFunc
		code    int
		want    string
	}{
		"alive":              {nil, ready(503, `{"ready":false,"reason":"it is shutting down"}`), exitOK, "ok"},
		"ready":              {[]string{"--ready"}, ready(200, `{"ready":true}`), exitOK, "ok"},
		"not ready":          {[]string{"--ready"}, ready(503, `{"ready":false,"reason":"it is shutting down"}`), exitFailed, "it is shutting down"},
		"page of a balancer": {[]string{"--ready"}, ready(503, `<html>`), exitFailed, "503"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := httptest.NewServer(c.handler)
			defer srv.Close()
			var out bytes.Buffer
			args := append([]string{"health", "--server", srv.URL}, c.args...)
			code := execute(t.Context(), args, streams{out: &out, err: &out})
			if code != c.code || !strings.Contains(out.String(), c.want) {
				t.Errorf("exit %d, want %d; output %q, want %q", code, c.code, out.String(), c.want)
			}
		})
	}
	var out bytes.Buffer
	if code := execute(t.Context(), []string{"health", "--server", "http://127.0.0.1:1"}, streams{out: &out, err: &out}); code != exitUnreachable {
		t.Errorf("exit %d without a server, want %d", code, exitUnreachable)
	}
}
