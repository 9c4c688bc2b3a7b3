package client

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"

	"github.com/lingua-scheduler/lingua/wire"
)

// socketPath is where sessions are held.
const socketPath = "/ws/session"

// Config is what a session is started with.
type Config struct {
	// URL is the scheduler's address: ws, wss, http or https. Without a path, /ws/session is meant.
	URL string
	// Token is a session token, sent as Authorization: Bearer. Empty: none is sent.
	Token string
	// Start is the first message: the two languages, the format of the audio, and what else is wanted.
	Start wire.SessionStart
	// HTTPClient connects. Nil: a client of the session's own, which follows no redirect.
	HTTPClient *http.Client
	// Log hears of lost connections. Nil: nobody does.
	Log *slog.Logger
}

// endpoint is the URL of the socket.
func (c *Config) endpoint() (string, error) {
	u, err := url.Parse(c.URL)
	if err != nil {
		return "", errors.New("client: Config.URL cannot be read; it should be like http://127.0.0.1:5010")
	}
	switch {
	case u.Scheme != "ws" && u.Scheme != "wss" && u.Scheme != "http" && u.Scheme != "https":
		return "", fmt.Errorf("client: Config.URL begins with %q; it should be like http://127.0.0.1:5010", u.Scheme)
	case u.Host == "":
		return "", errors.New("client: Config.URL names no host; it should be like http://127.0.0.1:5010")
	case u.User != nil:
		return "", errors.New("client: Config.URL holds a user name; put the session token into Config.Token")
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = socketPath
	}
	return u.String(), nil
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
