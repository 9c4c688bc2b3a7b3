package client

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/lingua-scheduler/lingua/internal/endpoints"
	"github.com/lingua-scheduler/lingua/wire"
)

// socketPath is the path of the session socket.
const socketPath = "/ws/session"

// Config is the configuration of a session. URL or URLs and Start.Langs are required.
type Config struct {
	// URL is the address of the scheduler: http://127.0.0.1:5010, or that of its socket, ws://127.0.0.1:5010/ws/session.
	URL string
	// URLs are further addresses of the same scheduler, for deployments without a load balancer in front of its instances.
	// The session tries all addresses in turn, beginning at a random one, and returns to the same one first when a connection
	// breaks.
	URLs []string
	// Token is a session token, sent as Authorization: Bearer. Empty: none is sent.
	Token string
	// TokenSource returns a token for each reconnect, for the start if Token is empty, and when the token of the connection has
	// expired: a session may outlast its tokens. Nil: Token is used again.
	TokenSource func(ctx context.Context) (string, error)
	// Start is the first message: the two languages, the format of the audio, and further settings.
	Start wire.SessionStart
	// HTTPClient is used to connect. Nil: a client of the session's own, which follows no redirect.
	HTTPClient *http.Client
	// Log receives the log of the session. Nil: slog.Default.
	Log *slog.Logger
}

// endpoints returns the endpoints of the scheduler.
func (c *Config) endpoints() (*endpoints.Rotation, error) {
	addresses := c.URLs
	if c.URL != "" {
		addresses = append([]string{c.URL}, addresses...)
	}
	rotation, err := endpoints.New(addresses, socketPath)
	if err != nil {
		return nil, fmt.Errorf("client: Config.%w", err)
	}
	return rotation, nil
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
	return slog.Default()
}

// milliseconds converts a duration that the scheduler sent. It is limited to a day, which no duration here exceeds.
func milliseconds(ms int64) time.Duration {
	const day = 24 * time.Hour
	return time.Duration(min(max(ms, 0), day.Milliseconds())) * time.Millisecond
}

// signal sends to a channel of capacity 1 unless it is full.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
