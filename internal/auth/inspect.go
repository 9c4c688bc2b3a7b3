package auth

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"
)

// KeyInfo describes a key of a keyring, without its secrets.
type KeyInfo struct {
	Principal
	NotAfter time.Time // zero: it does not expire
	Secrets  int       // how many secrets it has: two while it is rotated
}

// Valid returns why the key is not valid at a time; empty: it is.
func (k *KeyInfo) Valid(now time.Time) Reason {
	return (&key{Principal: k.Principal, notAfter: k.NotAfter}).check(now)
}

// Keys lists the keys by name.
func (k *Keyring) Keys() []KeyInfo {
	secrets := make(map[*key]int)
	for _, owner := range k.bySecret {
		secrets[owner]++
	}
	list := make([]KeyInfo, 0, len(k.byName))
	for _, key := range k.byName {
		list = append(list, KeyInfo{Principal: key.Principal, NotAfter: key.notAfter, Secrets: secrets[key]})
	}
	slices.SortFunc(list, func(a, b KeyInfo) int { return cmp.Compare(a.Key, b.Key) })
	return list
}

// HasTenants reports whether some key belongs to a tenant.
func (k *Keyring) HasTenants() bool {
	for _, key := range k.byName {
		if key.Tenant != "" {
			return true
		}
	}
	return false
}

// TokenAlgorithm is the algorithm with which signers sign session tokens.
const TokenAlgorithm = "HS256"

// SignerInfo describes a signer of a keyring.
type SignerInfo struct {
	KID string
	Use string // sign or verify
}

// Signers lists the signers by their kid.
func (k *Keyring) Signers() []SignerInfo {
	list := make([]SignerInfo, 0, len(k.signers))
	for _, kid := range slices.Sorted(maps.Keys(k.signers)) {
		use := UseVerify
		if k.sign == k.signers[kid] {
			use = UseSign
		}
		list = append(list, SignerInfo{KID: kid, Use: use})
	}
	return list
}

// Check returns what is wrong with a key, apart from its secrets.
func (c *KeyConfig) Check() error {
	if problems := c.check(); problems != nil {
		return errors.New(strings.Join(problems, "; "))
	}
	return nil
}

// CheckSecret returns what is wrong with the secret of a key.
func CheckSecret(secret string) error {
	if problem := checkKey(secret); problem != "" {
		return errors.New("the secret " + problem)
	}
	return nil
}
