package auth

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// Header is the header of a signed request.
const Header = "X-Lingua-Peer"

const (
	version      = "v1"
	headerFields = 6
	maxHeader    = 1 << 10 // bytes; a longer one is not looked at
	maxAge       = 30 * time.Second
	// MaxSecrets is how many secrets there may be: the old and the new one during a rotation.
	MaxSecrets = 2
	// keyPrefix begins the key of a caller that another instance has authenticated.
	keyPrefix = "peer:"
)

// PeerSecrets are the secrets that all instances share. All of them sign, and one is enough to verify: while they are rotated, an instance
// that has the old and the new one understands those that have only one of them. They can be replaced.
type PeerSecrets struct{ list atomic.Pointer[[]Signer] }

// NewPeerSecrets makes secrets. There may be none.
func NewPeerSecrets(secrets []string) *PeerSecrets {
	s := new(PeerSecrets)
	s.Replace(secrets)
	return s
}

// Replace puts other secrets in force.
func (s *PeerSecrets) Replace(secrets []string) {
	list := make([]Signer, len(secrets))
	for i, secret := range secrets {
		list[i] = Signer(secret)
	}
	s.list.Store(&list)
}

// Configured reports whether there are secrets.
func (s *PeerSecrets) Configured() bool { return len(*s.list.Load()) > 0 }

// claim is what the header of a request says.
type claim struct {
	instance core.InstanceID
	at       int64 // Unix milliseconds
	tenant   core.TenantID
	role     Role
}

// fields are the fields of the header before the signature.
func (c *claim) fields() string {
	return strings.Join([]string{version, string(c.instance), strconv.FormatInt(c.at, 10), string(c.tenant), string(c.role)}, ";")
}

// emptyBody is the hash of the body that a GET has.
var emptyBody = func() string {
	sum := sha256.Sum256(nil)
	return hex.EncodeToString(sum[:])
}()

// message is what is signed. No part can contain a line break.
func (c *claim) message(target, method, uri string) string {
	return strings.Join([]string{"lingua peer request", c.fields(), target, method, uri, emptyBody}, "\n")
}

// sign sets the header of a GET request without a body to the instance at target.
func (s *PeerSecrets) sign(req *http.Request, target string, c *claim) {
	message := c.message(target, req.Method, req.URL.RequestURI())
	var signatures []string
	for _, secret := range *s.list.Load() {
		signatures = append(signatures, secret.Sign(message))
	}
	req.Header.Set(Header, c.fields()+";"+strings.Join(signatures, ","))
}

// Verify returns the caller for which another instance sends a request to this one, whose address is self.
func (s *PeerSecrets) Verify(req *http.Request, self string) (*Principal, Reason) {
	values := req.Header.Values(Header)
	if len(values) != 1 || len(values[0]) > maxHeader || req.Method != http.MethodGet || req.ContentLength != 0 {
		return nil, Malformed
	}
	c, signatures := parse(values[0])
	if c == nil {
		return nil, Malformed
	}
	message, valid := c.message(self, req.Method, req.RequestURI), false
	for _, secret := range *s.list.Load() {
		for _, signature := range signatures {
			valid = secret.Verify(message, signature) || valid
		}
	}
	age := time.Since(time.UnixMilli(c.at))
	switch {
	case !valid:
		return nil, Unknown
	case age > maxAge:
		return nil, Expired
	case age < -maxAge:
		return nil, NotYetValid
	}
	return &Principal{Key: keyPrefix + string(c.instance), Role: c.role, Tenant: c.tenant, Issued: time.UnixMilli(c.at)}, ""
}

// parse returns the claim and the signatures of a header; nil if it is malformed.
func parse(header string) (*claim, []string) {
	f := strings.Split(header, ";")
	if len(f) != headerFields || f[0] != version || !core.ValidID(f[1]) || f[3] != "" && !core.ValidID(f[3]) {
		return nil, nil
	}
	at, err := strconv.ParseInt(f[2], 10, 64)
	c := &claim{instance: core.InstanceID(f[1]), at: at, tenant: core.TenantID(f[3]), role: Role(f[4])}
	signatures := strings.Split(f[5], ",")
	if err != nil || len(signatures) > MaxSecrets || !strings.HasPrefix(header, c.fields()+";") { // the number has one form
		return nil, nil
	}
	return c, signatures
}
