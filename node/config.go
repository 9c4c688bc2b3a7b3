package node

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/lingua-scheduler/lingua/internal/endpoints"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/wire"
)

const (
	socketPath             = "/ws/node"
	maxSlots               = 10000
	defaultShutdownTimeout = 30 * time.Second
)

// Config is the configuration of a node. URL or URLs, Slots and Declaration.SemanticLangs are required.
type Config struct {
	// URL is the address of the scheduler: http://127.0.0.1:5010, or that of its socket, ws://127.0.0.1:5010/ws/node.
	URL string
	// URLs are further addresses of the same scheduler, for deployments without a load balancer in front of its instances.
	// The node tries all addresses in turn, beginning at a random one, and returns to the same one first when a connection
	// breaks.
	URLs []string
	// Token is the node's credential. It is sent to the scheduler only.
	Token string
	// ID is the node's id. Empty: the scheduler generates one, which the node keeps over reconnects.
	ID string
	// Slots is the maximum number of concurrent jobs, and of concurrent calls of the handler. The list of all jobs must fit
	// into one message, which holds some two thousand; further jobs are refused.
	Slots int
	// Declaration is what the node can do. MaxConcurrentJobs and Active are filled in. Node.Update changes it.
	Declaration wire.Declaration
	// Load returns the utilization of the machine, each value from 0 to 1, for every heartbeat. It must not block. Optional.
	Load func() wire.Load
	// OnDrain is called when an operator drains the node, and when the drain ends. A drained node gets no new jobs, finishes
	// those that it has, and stays connected: cancel Run's context here if it should stop. OnDrain is called by the goroutine
	// that reads from the connection and must not block. Optional.
	OnDrain func(drained bool)
	// OnFull is called for every job that the node refuses because no slot is free, which the scheduler should prevent. It is
	// called by the goroutine that reads from the connection and must not block. Optional.
	OnFull func(job wire.ActiveJob)
	// ShutdownTimeout is how long the current jobs may take after Run's context has ended; 30 s unless given.
	ShutdownTimeout time.Duration
	// HTTPClient is used to connect, to fetch audio and to upload speech. Set it for a proxy or own certificates. Nil: a
	// client of the node's own.
	HTTPClient *http.Client
	// TracerProvider makes the node's part of the traces of OpenTelemetry: a span node.job for every call of the handler, in the trace of
	// the utterance if the scheduler traces it. Nil: the node makes no spans; those that a handler starts in its context still belong to
	// that trace.
	TracerProvider trace.TracerProvider
	// Log receives the log of the node. Nil: slog.Default.
	Log *slog.Logger
}

var idPattern = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,128}$`)

// validate returns the endpoints of the scheduler, or an error if the configuration is invalid.
func (c *Config) validate() (*endpoints.Rotation, error) {
	switch {
	case c.Slots < 1 || c.Slots > maxSlots:
		return nil, fmt.Errorf("node: Slots is %d; set the maximum number of concurrent jobs, from 1 to %d", c.Slots, maxSlots)
	case len(c.Declaration.SemanticLangs) == 0:
		return nil, errors.New("node: Declaration.SemanticLangs is empty; name the languages whose speech the node understands")
	case c.ID != "" && !idPattern.MatchString(c.ID):
		return nil, errors.New("node: ID may have A-Z a-z 0-9 . _ : - only, at most 128; or leave it empty")
	}
	addresses := c.URLs
	if c.URL != "" {
		addresses = append([]string{c.URL}, addresses...)
	}
	rotation, err := endpoints.New(addresses, socketPath)
	if err != nil {
		return nil, fmt.Errorf("node: Config.%w", err)
	}
	return rotation, nil
}

// timing holds the intervals, timeouts and buffer limits of a node. They are fixed but for tests.
type timing struct {
	firstBackoff      time.Duration // the bound of the wait before the first retry; it doubles with each further one
	maxBackoff        time.Duration
	stableAfter       time.Duration // a connection that lasted this long resets the backoff
	registerTimeout   time.Duration // for connecting and registering
	dialTimeout       time.Duration // for connecting, if there are other endpoints
	writeTimeout      time.Duration // for one message
	keepalive         time.Duration // how often at least the scheduler is asked to send a message
	pongTimeout       time.Duration // of a scheduler that does not know keepalives
	heartbeatInterval time.Duration // unless the scheduler names one
	minHeartbeatGap   time.Duration // between two heartbeats, however often the declaration changes
	resendAfter       time.Duration // for outcomes that are not acknowledged
	keepOutcome       time.Duration // after its deadline, for an outcome that is never acknowledged
	audioTimeout      time.Duration // without a further chunk or byte of audio
	stopTimeout       time.Duration // for handlers and the connection to end after the shutdown timeout
	maxUnacked        int           // bytes of unacknowledged outcomes; at this size no further job is accepted
}

var defaultTiming = timing{
	firstBackoff: 200 * time.Millisecond, maxBackoff: 5 * time.Second, stableAfter: 5 * time.Second,
	registerTimeout: 10 * time.Second, dialTimeout: 3 * time.Second, writeTimeout: 10 * time.Second,
	keepalive: 1500 * time.Millisecond, pongTimeout: 10 * time.Second,
	heartbeatInterval: 5 * time.Second, minHeartbeatGap: 100 * time.Millisecond,
	resendAfter: 3 * time.Second, keepOutcome: time.Minute, audioTimeout: 5 * time.Second, stopTimeout: 5 * time.Second,
	maxUnacked: maxUnackedBytes,
}

// backoff returns how long to wait before retry number n, from 0.
func (t *timing) backoff(n int) time.Duration {
	return run.FullJitter(n, t.firstBackoff, t.maxBackoff)
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
