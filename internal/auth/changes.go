package auth

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Changes describes what differs in another keyring, for people: which keys and signers were added, removed or changed. It contains no
// secret.
func (k *Keyring) Changes(next *Keyring) []string {
	var changes []string
	before, after := k.describeKeys(), next.describeKeys()
	changes = append(changes, compare("key", before, after)...)
	changes = append(changes, compare("signer", k.describeSigners(), next.describeSigners())...)
	if !slices.EqualFunc(k.cluster, next.cluster, bytes.Equal) {
		changes = append(changes, "cluster_secret changed")
	}
	if k.anonymous.describe() != next.anonymous.describe() {
		changes = append(changes, "anonymous_role changed")
	}
	return changes
}

// compare returns the names that one of two maps lacks, or that have other values.
func compare(kind string, before, after map[string]string) []string {
	var changes []string
	for _, name := range slices.Sorted(maps.Keys(after)) {
		was, known := before[name]
		switch {
		case !known:
			changes = append(changes, kind+" "+name+" added")
		case was != after[name]:
			changes = append(changes, kind+" "+name+" changed")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if _, known := after[name]; !known {
			changes = append(changes, kind+" "+name+" removed")
		}
	}
	return changes
}

// describeKeys returns all that is known of each key, by name.
func (k *Keyring) describeKeys() map[string]string {
	secrets := make(map[*key][]string)
	for sum, owner := range k.bySecret {
		secrets[owner] = append(secrets[owner], string(sum[:]))
	}
	all := make(map[string]string, len(k.byName))
	for name, key := range k.byName {
		slices.Sort(secrets[key])
		all[name] = fmt.Sprintf("%+v %d %q", key.Principal, key.notAfter.UnixNano(), strings.Join(secrets[key], ""))
	}
	return all
}

// describeSigners returns all that is known of each signer, by kid.
func (k *Keyring) describeSigners() map[string]string {
	all := make(map[string]string, len(k.signers))
	for kid, s := range k.signers {
		all[kid] = fmt.Sprintf("%v %q", k.sign == s, s.secret)
	}
	return all
}

// Knows reports whether a caller's key is still in the keyring and has not expired, with the same role, tenant and nodes, and for a session
// the signer of its token too. It does not say that the caller's secret is: a connection does not keep it.
func (k *Keyring) Knows(p *Principal, now time.Time) bool {
	if p.Key == "" {
		return k.Empty()
	}
	owner := k.byName[p.Key]
	switch {
	case strings.HasPrefix(p.Key, shortFormNode+"/"):
		return k.hasNodeToken(p)
	case owner == nil:
		return false
	case p.Role == Session:
		return (owner.Role == Operator || owner.Role == Minter && owner.Tenant == p.Tenant) && k.signers[p.KID] != nil
	}
	return owner.Role == p.Role && owner.Tenant == p.Tenant && owner.Nodes == p.Nodes && owner.check(now) != Expired
}

// Expires reports whether some key of the keyring expires.
func (k *Keyring) Expires() bool {
	for _, key := range k.byName {
		if !key.notAfter.IsZero() {
			return true
		}
	}
	return false
}

// hasNodeToken reports whether the short form has a token for the same nodes: at the end of a rotation another one than the caller's.
func (k *Keyring) hasNodeToken(p *Principal) bool {
	for name, key := range k.byName {
		if strings.HasPrefix(name, shortFormNode+"/") && key.Tenant == p.Tenant && key.Nodes == p.Nodes {
			return true
		}
	}
	return false
}
