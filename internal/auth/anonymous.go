package auth

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// A proxy that authenticates people itself forwards requests without a credential. The configuration may give them a role, if they come
// from the proxy: the address is that of the connection, which nobody can claim in a header.

// AnonymousKey is the name under which requests without a credential are audited, and can be revoked.
const AnonymousKey = "anonymous"

// NoRole is the configured role of requests without a credential that have none.
const NoRole = "none"

// How many bits a network of proxies has at least: 10.0.0.0/8 and fd00::/8 are such networks, and a large part of the Internet is not. Only
// unique local addresses of IPv6 may have so few.
const (
	minAnonymousBits   = 8
	minAnonymousBitsV6 = 32
)

// uniqueLocal are the addresses of IPv6 that are not routed on the Internet.
var uniqueLocal = netip.MustParsePrefix("fc00::/7")

// AnonymousConfig says what requests without a credential may do.
type AnonymousConfig struct {
	Role  string   // none, viewer or operator; empty: none
	From  []string // the networks that they come from, as CIDR prefixes
	Hosts []string // the names by which browsers reach the scheduler through the proxy
}

// anonymous is what a keyring knows about requests without a credential.
type anonymous struct {
	caller Principal
	from   []netip.Prefix
	hosts  []string
}

// addAnonymous checks and adds the role of requests without a credential.
func (b *keyringBuilder) addAnonymous(c *AnonymousConfig) {
	const roleKey, fromKey, hostsKey = "auth.anonymous_role", "auth.anonymous_from", "auth.anonymous_hosts"
	before := len(b.problems)
	a := &anonymous{caller: Principal{Key: AnonymousKey, Role: Role(c.Role), Anonymous: true}}
	for _, text := range c.From {
		prefix, err := netip.ParsePrefix(text)
		switch {
		case err != nil:
			b.reject(fromKey, "%q is not a CIDR prefix such as 10.0.0.5/32 or ::1/128", text)
		case prefix.Bits() < minBits(prefix):
			b.reject(fromKey, "%q is not the network of a proxy: everyone in it would have the role; give at least %d bits", text,
				minBits(prefix))
		}
		a.from = append(a.from, prefix.Masked())
	}
	for _, name := range c.Hosts {
		if !validHost(name) {
			b.reject(hostsKey, "%q is not the name of a host, such as ops.example.com, without a port", name)
		}
		a.hosts = append(a.hosts, strings.ToLower(name))
	}
	switch Role(c.Role) {
	case "", NoRole:
		return
	case Viewer, Operator:
	default:
		b.reject(roleKey, "must be none, viewer or operator, not %q", c.Role)
		return
	}
	if b.ring.Empty() {
		b.reject(roleKey, "there are no keys, and without any every caller is an operator: configure keys, or remove it")
	}
	if len(c.From) == 0 {
		b.reject(roleKey, "auth.anonymous_from is empty: name the addresses from which only the proxy that authenticates people "+
			"connects, such as 127.0.0.1/32")
	}
	if b.ring.byName[AnonymousKey] != nil {
		b.reject(roleKey, "there is a key of the name %s, which audit entries could not distinguish from requests without a credential: "+
			"rename it", AnonymousKey)
	}
	if len(b.problems) > before {
		return
	}
	b.ring.anonymous = a
	b.summary = append(b.summary, a.describe())
}

// describe returns all that is known of requests without a credential.
func (a *anonymous) describe() string {
	if a == nil {
		return ""
	}
	return fmt.Sprintf("anonymous %s %v %q", a.caller.Role, a.from, a.hosts)
}

// validHost reports whether a text is the name of a host: identifiers with dots between them.
func validHost(name string) bool {
	return core.ValidID(name) && !strings.ContainsAny(name, ":_") && !slices.Contains(strings.Split(name, "."), "")
}

// AuthenticateAnonymous returns the caller of a request without a credential, which came over a connection from an address, or why there is
// none.
func (a *Authenticator) AuthenticateAnonymous(remote string) (*Principal, Reason) {
	policy := a.Keyring().anonymous
	if policy == nil {
		return nil, Missing
	}
	peer, err := netip.ParseAddrPort(remote)
	if err != nil {
		return nil, Missing
	}
	addr := peer.Addr().Unmap().WithZone("")
	if !slices.ContainsFunc(policy.from, func(p netip.Prefix) bool { return p.Contains(addr) }) {
		return nil, Missing
	}
	if a.revocations != nil && a.revocations.Revoked(&policy.caller) {
		return nil, Revoked
	}
	return &policy.caller, ""
}

// AdmitsHost reports whether requests without a credential may be for a host, which has no port. A page whose name its owner makes point to
// the address of the scheduler (DNS rebinding) is of the same origin for a browser: only names that are configured are trusted. An address,
// and localhost, cannot be such a name.
func (k *Keyring) AdmitsHost(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil || host == "localhost" {
		return true
	}
	return k.anonymous != nil && slices.Contains(k.anonymous.hosts, host)
}

// AnonymousRole returns the role of requests without a credential; empty: they have none.
func (k *Keyring) AnonymousRole() Role {
	if k.anonymous == nil {
		return ""
	}
	return k.anonymous.caller.Role
}

// minBits returns how many bits a network of proxies has at least, in the form of a prefix.
func minBits(prefix netip.Prefix) int {
	if prefix.Addr().Is4() || uniqueLocal.Contains(prefix.Addr()) {
		return minAnonymousBits
	}
	return minAnonymousBitsV6
}
