package scheduler_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/redistest"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestReadySaysWhatIsWrong with a Redis that is there, and forgets it when it is not, or is well again.
func TestReadySaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		says       string
		begin, end func(*testing.T, *redistest.Server, *redistest.Proxy)
	}{
		"full":      {"is full and takes no writes", ailing("full").begin, ailing("full").end},
		"read-only": {"is a replica and takes no writes", ailing("read-only").begin, ailing("read-only").end},
		"closed": {
			"its password is missing",
			func(t *testing.T, s *redistest.Server, p *redistest.Proxy) {
				do(t, s, "CONFIG", "SET", "requirepass", "s3cret")
				p.Cut()
			},
			nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			redis := redistest.Start(t)
			proxy := redistest.StartProxy(t, redis.Addr())
			w := share(t, proxy.URL(), config.Default(), nil)
			ready := func() string {
				rec := httptest.NewRecorder()
				req := httptest.NewRequest(http.MethodGet, "/readyz", nil)
				req.Host = "127.0.0.1"
				w[0].Server.Handler().ServeHTTP(rec, req)
				return rec.Body.String()
			}
			for _, in := range w { // they cannot enter when it is too late
				took(t, "it to be ready", patience, func() bool { return in.peer.Get(t.Context(), "/readyz", new(wire.ReadyResponse)) == nil })
			}
			c.begin(t, redis, proxy)
			took(t, "it to say that "+c.says, patience, func() bool { return strings.Contains(ready(), c.says) })
			proxy.Refuse(true)
			took(t, "it to say that nobody is there", patience, func() bool { return strings.Contains(ready(), "does not answer") })
			proxy.Refuse(false)
			if c.end == nil {
				return
			}
			c.end(t, redis, proxy)
			took(t, "it to be ready again", patience, func() bool { return strings.Contains(ready(), `"ready":true`) })
		})
	}
}

// ailing is one of the ailments.
func ailing(name string) ailment {
	for _, a := range ailments {
		if a.name == name {
			return a
		}
	}
	panic(name)
}
