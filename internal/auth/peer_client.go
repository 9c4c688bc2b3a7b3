package auth

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// maxAnswer is the maximum size of an answer in bytes.
const maxAnswer = 8 << 20

// PeerClient sends requests to other instances.
type PeerClient struct {
	instance core.InstanceID
	secrets  *PeerSecrets
	keyed    func() bool
	http     *http.Client
}

// NewPeerClient makes a client of this instance. keyed reports whether instances require credentials: if not, requests are not signed.
// secure is for instances with TLS; nil: the default.
func NewPeerClient(instance core.InstanceID, secrets *PeerSecrets, secure *tls.Config, keyed func() bool) *PeerClient {
	return &PeerClient{instance: instance, secrets: secrets, keyed: keyed, http: &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true, TLSClientConfig: secure},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Enabled reports whether other instances can be asked. With keys and without a shared secret they would refuse.
func (c *PeerClient) Enabled() bool { return !c.keyed() || c.secrets.Configured() }

// Get requests a path with its query from the instance at an address, on behalf of a caller, and decodes the answer.
func (c *PeerClient) Get(ctx context.Context, address, uri string, caller *Principal, out any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address+uri, http.NoBody)
	if err != nil {
		return err
	}
	if c.keyed() {
		if !c.secrets.Configured() {
			return errors.New("auth.cluster_secret is not configured")
		}
		c.secrets.sign(req, address, &claim{instance: c.instance, at: time.Now().UnixMilli(), tenant: caller.Tenant, role: caller.Role})
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // it was only read
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	return json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(out)
}
