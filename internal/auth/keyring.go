package auth

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// Config has the configured credentials.
type Config struct {
	// The short forms, for a small set-up.
	OperatorKeys  []string
	NodeTokens    []string // pattern=token, or pattern@tenant=token
	SessionSecret string   // signs session tokens

	ClusterSecrets []string // sign the requests of instances to each other; the first signs, all verify

	Keys    []KeyConfig
	Signers []SignerConfig

	Anonymous AnonymousConfig
}

// KeyConfig is a configured key.
type KeyConfig struct {
	Name      string
	Role      Role
	Tenant    core.TenantID
	Nodes     string
	Pool      core.PoolID
	MaxNodes  int
	MaxTTL    time.Duration
	SHA256    []string // hashes of the accepted secrets, in hexadecimal
	Secrets   []string // accepted secrets
	NotBefore time.Time
	NotAfter  time.Time
}

// SignerConfig is a configured secret for session tokens.
type SignerConfig struct {
	KID    string
	Use    string // sign or verify
	Secret string
}

// The uses of a signer.
const (
	UseSign   = "sign"   // new tokens are signed with it, and it verifies
	UseVerify = "verify" // it only verifies
)

const (
	minKeyLength    = 16 // of a key or a token
	minSecretLength = 32 // of a secret that signs
	// maxKeySecrets is how many secrets a key may have: the old and the new one during a rotation.
	maxKeySecrets = 2
	// MaxTokenTTL is the maximum lifetime of a session token.
	MaxTokenTTL = 24 * time.Hour
	// shortFormKID names the secret of the short form. Tokens without a kid were signed with it.
	shortFormKID = "session_secret"
	// shortFormOperator and shortFormNode name the keys of the short forms.
	shortFormOperator = "operator_keys"
	shortFormNode     = "node_tokens"
)

type digest = [sha256.Size]byte

// key is a key of a keyring.
type key struct {
	Principal
	notAfter time.Time
}

// signer is a secret of a keyring.
type signer struct {
	kid    string
	secret []byte
}

// Keyring is a set of credentials. It does not change. It holds the hashes of keys, and the secrets that sign.
type Keyring struct {
	bySecret map[digest]*key
	byName   map[string]*key
	signers  map[string]*signer
	sign     *signer // nil: no tokens are minted
	cluster  [][]byte
	// anonymous is for requests without a credential; nil: they have no role.
	anonymous *anonymous
	digest    string
}

// NewKeyring compiles credentials. The error names the invalid ones, one in each line, without quoting secrets.
func NewKeyring(c Config) (*Keyring, error) {
	b := keyringBuilder{ring: &Keyring{bySecret: make(map[digest]*key), byName: make(map[string]*key), signers: make(map[string]*signer)}}
	b.addShortForms(&c)
	for i := range c.Keys {
		b.addKey(i, &c.Keys[i])
	}
	for i := range c.Signers {
		b.addSigner(i, &c.Signers[i])
	}
	for i, secret := range c.ClusterSecrets {
		b.ring.cluster = append(b.ring.cluster, []byte(secret))
		b.summary = append(b.summary, fmt.Sprintf("cluster %d %x", i, sha256.Sum256([]byte(secret))))
	}
	b.addAnonymous(&c.Anonymous)
	b.checkTogether(&c)
	if b.problems != nil {
		return nil, errors.Join(b.problems...)
	}
	b.ring.digest = b.summarise()
	return b.ring, nil
}

// Empty reports whether there are no credentials: every caller is an operator.
func (k *Keyring) Empty() bool { return len(k.bySecret) == 0 }

// Mints reports whether session tokens can be minted.
func (k *Keyring) Mints() bool { return k.sign != nil }

// SigningKID is the kid of new session tokens; empty if none can be minted.
func (k *Keyring) SigningKID() string {
	if k.sign == nil {
		return ""
	}
	return k.sign.kid
}

// Key returns the key of a name; nil when there is none.
func (k *Keyring) Key(name string) *Principal {
	if key := k.byName[name]; key != nil {
		return &key.Principal
	}
	return nil
}

// HasKey reports whether there is a key of a name, or requests without one are called so.
func (k *Keyring) HasKey(name string) bool {
	return k.byName[name] != nil || name == AnonymousKey && k.anonymous != nil
}

// HasSigner reports whether there is a signer with a kid.
func (k *Keyring) HasSigner(kid string) bool { return k.signers[kid] != nil }

// Digest identifies the credentials without revealing them: two instances with the same digest accept the same.
func (k *Keyring) Digest() string { return k.digest }

// keyringBuilder collects the problems of a configuration while it makes a keyring.
type keyringBuilder struct {
	ring      *Keyring
	problems  []error
	summary   []string
	operators int
}

func (b *keyringBuilder) reject(where, format string, args ...any) {
	b.problems = append(b.problems, fmt.Errorf("%s: %s", where, fmt.Sprintf(format, args...)))
}

func (b *keyringBuilder) addShortForms(c *Config) {
	operator := &key{Principal: Principal{Key: shortFormOperator, Role: Operator}}
	for i, secret := range c.OperatorKeys {
		if e := checkKey(secret); e != "" {
			b.reject("auth.operator_keys", "key %d %s", i+1, e)
			continue
		}
		b.ring.byName[shortFormOperator] = operator
		b.addSecret("auth.operator_keys", sha256.Sum256([]byte(secret)), operator)
	}
	if len(c.OperatorKeys) > 0 {
		b.operators++
	}
	for i, entry := range c.NodeTokens {
		secret, p, err := parseNodeToken(entry)
		if err != nil {
			b.reject("auth.node_tokens", "entry %d %s", i+1, err)
			continue
		}
		sum := sha256.Sum256([]byte(secret))
		p.Key = nodeTokenName(sum)
		k := &key{Principal: p}
		b.ring.byName[p.Key] = k
		b.addSecret("auth.node_tokens", sum, k)
	}
	if c.SessionSecret != "" {
		if len(c.SessionSecret) < minSecretLength {
			b.reject("auth.session_secret", "is shorter than %d characters", minSecretLength)
			return
		}
		s := &signer{kid: shortFormKID, secret: []byte(c.SessionSecret)}
		b.ring.signers[shortFormKID] = s
		b.ring.sign = s // unless a configured signer replaces it
		b.summarySigner(s)
	}
}

// nodeTokenName is the name of a token of the short form. It does not depend on its place in the list, so that a revocation stays with
// the token when others are added or removed.
func nodeTokenName(sum digest) string { return fmt.Sprintf("%s/%x", shortFormNode, sum[:4]) }

// parseNodeToken parses pattern=token or pattern@tenant=token.
func parseNodeToken(entry string) (secret string, p Principal, err error) {
	scope, secret, ok := strings.Cut(entry, "=")
	pattern, tenant, scoped := strings.Cut(scope, "@")
	p = Principal{Role: Node, Nodes: pattern, Tenant: core.TenantID(tenant)}
	switch {
	case !ok || pattern == "":
		return "", p, errors.New("must be pattern=token or pattern@tenant=token, such as gpu-*=…")
	case checkPattern(pattern) != nil:
		return "", p, fmt.Errorf("has what %w", errPattern)
	case scoped && !core.ValidID(tenant):
		return "", p, errors.New("has a tenant that is not a valid identifier")
	}
	if e := checkKey(secret); e != "" {
		return "", p, errors.New("has a token that " + e)
	}
	return secret, p, nil
}

// checkKey returns what is wrong with the secret of a key: it must be long enough, and valid in an HTTP header.
func checkKey(secret string) string {
	if len(secret) < minKeyLength {
		return fmt.Sprintf("is shorter than %d characters", minKeyLength)
	}
	if strings.ContainsFunc(secret, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "has characters that cannot be sent: use printable ASCII without spaces"
	}
	return ""
}

// addSecret makes a secret one of a key's.
func (b *keyringBuilder) addSecret(where string, sum digest, k *key) {
	if other := b.ring.bySecret[sum]; other != nil {
		b.reject(where, "%s has a secret that %s has too: each secret belongs to one key", k.Key, other.Key)
		return
	}
	b.ring.bySecret[sum] = k
	b.summary = append(b.summary, fmt.Sprintf("key %x %+v %s", sum, k.Principal, k.notAfter.UTC().Format(time.RFC3339)))
}

// addKey adds a named key.
func (b *keyringBuilder) addKey(i int, c *KeyConfig) {
	where := fmt.Sprintf("auth.keys[%d]", i)
	if core.ValidID(c.Name) {
		where += " (" + c.Name + ")"
	}
	before := len(b.problems)
	for _, e := range c.check() {
		b.reject(where, "%s", e)
	}
	if b.ring.byName[c.Name] != nil {
		b.reject(where, "there is another key of this name")
	}
	sums := c.sums(func(format string, args ...any) { b.reject(where, format, args...) })
	if len(b.problems) > before {
		return
	}
	k := &key{
		Principal: Principal{
			Key: c.Name, Role: c.Role, Tenant: c.Tenant, Issued: c.NotBefore, Nodes: c.Nodes, Pool: c.Pool, MaxNodes: c.MaxNodes,
			MaxTTL: c.MaxTTL,
		},
		notAfter: c.NotAfter,
	}
	if c.Role == Minter {
		k.MaxTTL = cmp.Or(k.MaxTTL, MaxTokenTTL)
	}
	b.ring.byName[c.Name] = k
	for _, sum := range sums {
		b.addSecret(where, sum, k)
	}
	if c.Role == Operator {
		b.operators++
	}
}

// check returns what is wrong with the fields of a key, apart from its secrets.
func (c *KeyConfig) check() []string {
	var problems []string
	require := func(ok bool, text string) {
		if !ok {
			problems = append(problems, text)
		}
	}
	require(core.ValidID(c.Name), "name must be 1 to 128 characters out of A-Z a-z 0-9 . _ : -")
	require(slices.Contains(keyRoles, c.Role), "role must be operator, viewer, metrics, minter or node")
	require(c.Tenant == "" || core.ValidID(string(c.Tenant)), "tenant is not a valid identifier")
	require(c.Tenant == "" || c.Role == Viewer || c.Role == Minter || c.Role == Node, "a key of this role has no tenant")
	require(c.Tenant != "" || c.Role != Minter, "a minter needs a tenant")
	require(c.Nodes == "" || c.Role == Node, "nodes is for keys of role node")
	require(c.Role != Node || c.Nodes != "" && checkPattern(c.Nodes) == nil, "nodes must be a pattern of node names, such as gpu-*")
	require(c.Pool == "" || c.Role == Node, "pool is for keys of role node")
	require(c.Pool == "" || core.ValidID(string(c.Pool)), "pool is not a valid identifier")
	require(c.MaxNodes == 0 || c.Role == Node, "max_nodes is for keys of role node")
	require(c.MaxNodes >= 0, "max_nodes must be 0 or more")
	require(c.MaxTTL == 0 || c.Role == Minter, "max_ttl is for keys of role minter")
	require(c.MaxTTL >= 0 && c.MaxTTL <= MaxTokenTTL, fmt.Sprintf("max_ttl must be between 1 and %d", int(MaxTokenTTL.Seconds())))
	require(c.NotAfter.IsZero() || c.NotAfter.After(c.NotBefore), "not_after must be later than not_before")
	return problems
}

// sums returns the hashes of a key's secrets.
func (c *KeyConfig) sums(reject func(format string, args ...any)) []digest {
	var sums []digest
	for i, text := range c.SHA256 {
		raw, err := hex.DecodeString(text)
		if err != nil || len(raw) != sha256.Size {
			reject("sha256 %d is not the SHA-256 of a key in hexadecimal; lingua keys hash prints it", i+1)
			continue
		}
		sums = append(sums, digest(raw))
	}
	for i, secret := range c.Secrets {
		if e := checkKey(secret); e != "" {
			reject("secret %d %s", i+1, e)
			continue
		}
		sums = append(sums, sha256.Sum256([]byte(secret)))
	}
	switch n := len(c.SHA256) + len(c.Secrets); {
	case n == 0:
		reject("has no secret: give sha256, secret_file or secret_env; lingua keys new makes one")
	case n > maxKeySecrets:
		reject("has %d secrets; the maximum is %d, the old and the new one during a rotation", n, maxKeySecrets)
	}
	return sums
}

// addSigner adds a secret for session tokens.
func (b *keyringBuilder) addSigner(i int, c *SignerConfig) {
	where := fmt.Sprintf("auth.signers[%d]", i)
	before := len(b.problems)
	if !core.ValidID(c.KID) {
		b.reject(where, "kid must be 1 to 128 characters out of A-Z a-z 0-9 . _ : -")
	} else if b.ring.signers[c.KID] != nil {
		b.reject(where, "there is another signer with this kid")
	}
	if c.Use != UseSign && c.Use != UseVerify {
		b.reject(where, "use must be sign or verify")
	}
	if len(c.Secret) < minSecretLength {
		b.reject(where, "its secret is shorter than %d characters", minSecretLength)
	}
	if c.Use == UseSign && b.ring.sign != nil && b.ring.sign.kid != shortFormKID {
		b.reject(where, "another signer signs already: set use = \"verify\" for one of them")
	}
	if len(b.problems) > before {
		return
	}
	s := &signer{kid: c.KID, secret: []byte(c.Secret)}
	b.ring.signers[c.KID] = s
	b.summarySigner(s)
	if c.Use == UseSign {
		b.ring.sign = s
	}
}

func (b *keyringBuilder) summarySigner(s *signer) {
	b.summary = append(b.summary, fmt.Sprintf("signer %s %x", s.kid, sha256.Sum256(s.secret)))
}

// checkTogether checks the credentials against each other.
func (b *keyringBuilder) checkTogether(c *Config) {
	if b.operators == 0 && (len(c.NodeTokens) > 0 || len(c.Keys) > 0 || len(c.Signers) > 0 || c.SessionSecret != "") {
		b.reject("auth.operator_keys",
			"is empty, and no key in auth.keys has the role operator, although there are other credentials: without one the scheduler "+
				"cannot be operated")
	}
	names := slices.Sorted(maps.Keys(b.ring.byName))
	for i, a := range names {
		for _, other := range names[i+1:] {
			x, y := b.ring.byName[a], b.ring.byName[other]
			if x.Role == Node && y.Role == Node && x.Tenant != y.Tenant && PatternsOverlap(x.Nodes, y.Nodes) {
				b.reject("auth.keys", "a node's name can match both %s of %s and %s of %s, which have different tenants: make the "+
					"patterns disjoint", x.Nodes, a, y.Nodes, other)
			}
		}
		if b.ring.byName[a].Role == Minter && b.ring.sign == nil {
			b.reject("auth.signers", "has no signer with use = \"sign\", so that %s cannot mint", a)
		}
	}
}

// summarise returns the digest of the credentials.
func (b *keyringBuilder) summarise() string {
	if b.ring.sign != nil {
		b.summary = append(b.summary, "sign "+b.ring.sign.kid)
	}
	slices.Sort(b.summary)
	sum := sha256.Sum256([]byte(strings.Join(b.summary, "\n")))
	return hex.EncodeToString(sum[:6])
}
