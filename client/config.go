package client

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/lingua-scheduler/lingua/wire"
)

// socketPath is where sessions are held.
const socketPath = "/ws/session"

// Config is what a session is started with.
type Config struct {
	// URL is where the scheduler is: ws://127.0.0.1:5010/ws/session, or its address for HTTP, to which the path is added.
	URL string
	// URLs are further addresses of the same scheduler, where no load balancer stands in front of its instances. All are
	// tried in turn, beginning at a random one; a connection that broke is first tried where it was.
	URLs []string
	// Token is a session token, sent as Authorization: Bearer. Empty: none is sent.
	Token string
	// Renew is asked for a token each time the session connects again, and at the start if Token is empty: tokens expire,
	// and a session may outlast them. Nil: Token is used again.
	TokenSource func(ctx context.Context) (string, error)
	// Start is the first message: the two languages, the format of the audio, and what else is wanted.
	Start wire.SessionStart
	// HTTPClient connects. Nil: a client of the session's own, which follows no redirect.
	HTTPClient *http.Client
	// Log hears of lost connections. Nil: nobody does.
	Log *slog.Logger
}

// addresses are where the socket may be.
func (c *Config) addresses() (addresses, error) {
	all := c.URLs
	if c.URL != "" || len(all) == 0 {
		all = append([]string{c.URL}, all...)
	}
	return newAddresses(all)
}

func (c *Config) httpClient() *http.Client {
	if c.HTTPClient != nil {
		return c.HTTPClient
	}
	return &http.Client{
		Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func (c *Config) log() *slog.Logger {
	if c.Log != nil {
		return c.Log
	}
	return slog.New(slog.DiscardHandler)
}
