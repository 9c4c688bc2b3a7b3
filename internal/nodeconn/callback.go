package nodeconn

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/lingua-scheduler/lingua/internal/auth"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/dispatch"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/wire"
)

// CallbackConfig configures the requests to nodes.
type CallbackConfig struct {
	Allowed []netip.Prefix // networks in which nodes may be
	Secret  []byte         // signs requests; empty: not signed
	// Resolver resolves the names of nodes; nil: the system's.
	Resolver *net.Resolver
}

// Callbacks is a dispatch.Transport over HTTP.
type Callbacks struct {
	cfg    CallbackConfig
	client *http.Client
}

var _ dispatch.Transport = (*Callbacks)(nil)

// errForbidden is the error of an address outside the allowed networks.
var errForbidden = errors.New("this address is not among the allowed callback targets")

// maxResponse bounds how much of a response is read.
const maxResponse = 4 << 10

// NewCallbacks makes a Caller.
func NewCallbacks(cfg CallbackConfig) *Callbacks {
	c := &Callbacks{cfg: cfg}
	dialer := &net.Dialer{Timeout: 2 * time.Second, KeepAlive: 30 * time.Second, Control: c.checkDial, Resolver: cfg.Resolver}
	c.client = &http.Client{
		Transport: &http.Transport{
			DialContext:         dialer.DialContext,
			MaxIdleConns:        4096,
			MaxIdleConnsPerHost: 64,
			IdleConnTimeout:     90 * time.Second,
			ForceAttemptHTTP2:   false,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c
}

// Close closes idle connections.
func (c *Callbacks) Close() { c.client.CloseIdleConnections() }

// checkDial refuses to dial an address that is not allowed, whatever name resolved to it.
func (c *Callbacks) checkDial(_, address string, _ syscall.RawConn) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil || !c.allows(ap.Addr()) {
		return errForbidden
	}
	return nil
}

func (c *Callbacks) allows(a netip.Addr) bool {
	a = a.Unmap()
	for _, p := range c.cfg.Allowed {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// Check returns why a callback URL may not be used, in a sentence for the author of the URL. A DNS name is checked again each
// time it is dialled.
func (c *Callbacks) Check(address string) error {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Hostname() == "":
		return errors.New("must be an absolute URL such as http://127.0.0.1:9000/jobs")
	case u.Scheme != "http" && u.Scheme != "https":
		return errors.New("must begin with http:// or https://")
	case u.User != nil:
		return errors.New("must not contain a user name or password")
	case u.Fragment != "":
		return errors.New("must not contain a fragment")
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return errors.New("must be an absolute URL with a port between 1 and 65535")
		}
	}
	if a, err := netip.ParseAddr(u.Hostname()); err == nil && !c.allows(a) {
		return fmt.Errorf("%s is not an allowed target; allow it with callback.allowed_targets in the scheduler's config", a)
	}
	return nil
}

// Deliver implements dispatch.Transport.
func (c *Callbacks) Deliver(ctx context.Context, to *core.Node, a *wire.Assignment) error {
	if err := c.Check(to.Callback); err != nil {
		return fmt.Errorf("%w: its callback_url %w", dispatch.ErrRefused, err)
	}
	body, err := json.Marshal(a)
	if err != nil {
		return fmt.Errorf("%w: %w", dispatch.ErrRefused, err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to.Callback, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("%w: its callback_url cannot be used", dispatch.ErrRefused)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "lingua-scheduler")
	if a.Traceparent != "" {
		req.Header.Set(wire.TraceparentHeader, a.Traceparent)
	}
	if len(c.cfg.Secret) > 0 {
		req.Header.Set(wire.SignatureHeader, Sign(c.cfg.Secret, time.Now(), body))
	}
	if to.SecretHash != "" {
		req.Header.Set(wire.NodeSignatureHeader, Sign([]byte(to.SecretHash), time.Now(), body))
	}
	if run.Expired(ctx) {
		return fmt.Errorf("%w: it was too late to send it", dispatch.ErrRefused)
	}
	return c.send(req)
}

// send sends a request and classifies the outcome. After one send that was not answered, no refusal is certain: it may have arrived.
func (c *Callbacks) send(req *http.Request) error {
	req, sends := repeatable(req)
	resp, err := c.client.Do(req)
	if err != nil {
		return certain(classifyError(err), sends.Load() == 0)
	}
	defer resp.Body.Close()
	response, _ := io.ReadAll(io.LimitReader(resp.Body, maxResponse))
	return certain(classifyResponse(resp.StatusCode, response), sends.Load() == 1)
}

// certain returns the outcome of a delivery, but not as a refusal if the refusal is not certain.
func certain(err error, isCertain bool) error {
	if !isCertain && (errors.Is(err, dispatch.ErrRefused) || errors.Is(err, dispatch.ErrBusy)) {
		return errBroken
	}
	return err
}

// repeatable returns a request that the HTTP client may send once more, over a new connection, if the node closed the kept one while the
// request was being written: a node takes the same assignment once. sends counts how often it was sent.
func repeatable(req *http.Request) (_ *http.Request, sends *atomic.Int32) {
	req.Header["Idempotency-Key"] = nil // tells the client; an empty header is not sent
	sends = new(atomic.Int32)
	trace := &httptrace.ClientTrace{WroteHeaders: func() { sends.Add(1) }}
	return req.WithContext(httptrace.WithClientTrace(req.Context(), trace)), sends
}

var (
	errTimeout = errors.New("the node did not respond in time")
	errBroken  = errors.New("the connection to the node broke, or its response could not be read")
)

// classifyError distinguishes a request that certainly did not arrive from one that may have. The error of the HTTP client is
// not returned: it may contain the URL, with a secret in its query, or the response of the node.
func classifyError(err error) error {
	var op *net.OpError
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns):
		return fmt.Errorf("%w: its name cannot be resolved", dispatch.ErrRefused)
	case errors.As(err, &op) && op.Op == "dial":
		return fmt.Errorf("%w: %w", dispatch.ErrRefused, op.Err)
	case errors.Is(err, context.DeadlineExceeded):
		return errTimeout
	}
	return errBroken
}

// classifyResponse converts the response of a node. Status 2xx accepts the job. A client error refuses it, and so does
// NODE_BUSY with any status. After a server error the outcome is unknown.
func classifyResponse(status int, response []byte) error {
	if status/100 == 2 {
		return nil
	}
	var e wire.Error
	if json.Unmarshal(response, &e) == nil && e.Code == wire.Code(core.ReasonNodeBusy) || status == http.StatusTooManyRequests {
		return dispatch.ErrBusy
	}
	if status/100 == 5 {
		return fmt.Errorf("the node responded %d", status)
	}
	return fmt.Errorf("%w: it responded %d", dispatch.ErrRefused, status)
}

// Cancel implements dispatch.Transport. An HTTP node gets the cancel in the response to its next heartbeat.
func (c *Callbacks) Cancel(context.Context, core.NodeID, core.JobID, int) {}

// Sign returns the value of the signature header.
func Sign(secret []byte, at time.Time, body []byte) string {
	t := strconv.FormatInt(at.Unix(), 10)
	return "t=" + t + ",v1=" + hex.EncodeToString(auth.MAC(secret, []byte(t+"."), body))
}
