package config

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/lingua-scheduler/lingua/internal/auth"
	"github.com/lingua-scheduler/lingua/internal/core"
)

// Auth holds the credentials of clients. Without any of them every client may do everything, and only this machine can connect.
type Auth struct {
	OperatorKeys        []string `toml:"operator_keys" env:"OPERATOR_KEYS" doc:"Keys with all permissions, sent as Authorization: Bearer. At least 16 characters each. A short form of keys with the role operator."`
	NodeTokens          []string `toml:"node_tokens" env:"NODE_TOKENS" doc:"Tokens for nodes, each with a pattern of node ids: gpu-*=token, or gpu-*@tenant=token for the nodes of a tenant. A short form of keys with the role node."`
	SessionSecret       string   `toml:"session_secret" env:"SESSION_SECRET" doc:"Signs the tokens that POST /v1/sessions creates; the same for every instance. At least 32 characters. A short form of a signer."`
	ClusterSecrets      []string `toml:"cluster_secret" env:"CLUSTER_SECRET" doc:"Signs the requests of instances to each other; the same for every instance. At least 32 characters. Two while it is rotated, in any order: instances that have one in common understand each other. Without it and with keys, lists of jobs are of one instance."`
	RequireNodeSecret   *bool    `toml:"require_node_secret" env:"REQUIRE_NODE_SECRET" doc:"Whether a node must send the node_token of its registration with every report over HTTP, and to register again while it is present. Default: true if there are keys."`
	SessionGraceSeconds Seconds  `toml:"session_grace_seconds" env:"SESSION_GRACE_SECONDS" doc:"How long after the expiry of its token a session may stay connected, to be renewed by session_update."`
	LoginSeconds        Seconds  `toml:"login_seconds" env:"LOGIN_SECONDS" doc:"How long a login to the dashboard lasts."`
	AnonymousRole       string   `toml:"anonymous_role" env:"ANONYMOUS_ROLE" doc:"The role of requests without a credential, for a proxy that authenticates people itself: none, viewer or operator. It needs keys and anonymous_from, and is not for WebSockets, nodes, dispatches, tokens, revocations and what was said. It is safer that the proxy adds a key."`
	AnonymousFrom       []string `toml:"anonymous_from" env:"ANONYMOUS_FROM" doc:"The networks from which requests have that role, as CIDR prefixes: where only the proxy connects from. It is the address of the connection that counts, and never one in a header."`
	AnonymousHosts      []string `toml:"anonymous_hosts" env:"ANONYMOUS_HOSTS" doc:"The names of hosts for which requests have that role, as browsers send them: that of the proxy. Addresses and localhost need not be named."`
	Keys                []Key    `toml:"keys" doc:"A key with a name and a role. Repeat the table for each key."`
	Signers             []Signer `toml:"signers" doc:"A secret for session tokens. Repeat the table for each; one signs, all verify."`
}

// Key is a named key.
type Key struct {
	Name       string    `toml:"name" doc:"The public name of the key, for audit entries and revocations."`
	Role       string    `toml:"role" doc:"operator, viewer, metrics, minter or node."`
	Tenant     string    `toml:"tenant" doc:"The tenant of a viewer, a minter or a node. A minter must have one."`
	Nodes      string    `toml:"nodes" doc:"The pattern of the node ids that a key of role node is for."`
	Pool       string    `toml:"pool" doc:"The capability pool of these nodes. Without it, they belong to a pool whose services they have."`
	MaxNodes   int       `toml:"max_nodes" doc:"How many nodes may be registered with a key of role node, 0: any number."`
	MaxTTL     Seconds   `toml:"max_ttl" doc:"The maximum lifetime in seconds of the session tokens that a minter mints. Default: a day."`
	SHA256     []string  `toml:"sha256" doc:"SHA-256 of the secret in hexadecimal, as lingua keys new and lingua keys hash print it. Two while it is rotated."`
	SecretFile string    `toml:"secret_file" doc:"A file with the secret, instead of sha256. Two lines while it is rotated."`
	SecretEnv  string    `toml:"secret_env" doc:"An environment variable with the secret, instead of sha256."`
	NotBefore  time.Time `toml:"not_before" doc:"The key is refused before this time. A revocation before this time does not apply to it."`
	NotAfter   time.Time `toml:"not_after" doc:"The key is refused from this time on."`
}

// Signer is a secret for session tokens.
type Signer struct {
	KID        string `toml:"kid" doc:"The public name of the secret, which tokens have."`
	Use        string `toml:"use" doc:"sign: new tokens are signed with it, and it verifies. verify: it only verifies."`
	SecretFile string `toml:"secret_file" doc:"A file with the secret, of at least 32 characters."`
	SecretEnv  string `toml:"secret_env" doc:"An environment variable with the secret, instead of the file."`
}

// Configured reports whether there are credentials.
func (a *Auth) Configured() bool {
	return len(a.OperatorKeys)+len(a.NodeTokens)+len(a.Keys)+len(a.Signers) > 0 || a.SessionSecret != ""
}

// NodeSecretRequired reports whether nodes must prove that they made their registration.
func (a *Auth) NodeSecretRequired() bool {
	if a.RequireNodeSecret != nil {
		return *a.RequireNodeSecret
	}
	return a.Configured()
}

// Keyring reads the secrets and returns the credentials. The error has a line for each problem.
func (a *Auth) Keyring() (*auth.Keyring, error) {
	c := auth.Config{OperatorKeys: a.OperatorKeys, NodeTokens: a.NodeTokens, SessionSecret: a.SessionSecret,
		ClusterSecrets: a.ClusterSecrets}
	c.Anonymous = auth.AnonymousConfig{Role: a.AnonymousRole, From: a.AnonymousFrom, Hosts: a.AnonymousHosts}
	var problems []error
	for i := range a.Keys {
		k := &a.Keys[i]
		secrets, err := readSecrets(k.SecretFile, k.SecretEnv)
		if err != nil {
			problems = append(problems, fmt.Errorf("auth.keys[%d]: %w", i, err))
			secrets = []string{unreadable()}
		}
		c.Keys = append(c.Keys, auth.KeyConfig{
			Name: k.Name, Role: auth.Role(k.Role), Tenant: core.TenantID(k.Tenant), Nodes: k.Nodes, Pool: core.PoolID(k.Pool),
			MaxNodes: k.MaxNodes, MaxTTL: k.MaxTTL.Duration(),
			SHA256: k.SHA256, Secrets: secrets, NotBefore: k.NotBefore, NotAfter: k.NotAfter,
		})
	}
	for i := range a.Signers {
		s := &a.Signers[i]
		secrets, err := readSecrets(s.SecretFile, s.SecretEnv)
		switch {
		case err != nil:
			problems = append(problems, fmt.Errorf("auth.signers[%d]: %w", i, err))
			secrets = []string{unreadable()}
		case len(secrets) != 1:
			problems = append(problems, fmt.Errorf("auth.signers[%d]: has %d secrets, and needs one: give secret_file with one line, or "+
				"secret_env", i, len(secrets)))
			secrets = []string{unreadable()}
		}
		c.Signers = append(c.Signers, auth.SignerConfig{KID: s.KID, Use: s.Use, Secret: secrets[0]})
	}
	if n := len(a.ClusterSecrets); n > auth.MaxSecrets {
		problems = append(problems, fmt.Errorf("auth.cluster_secret: has %d secrets; %d are enough to rotate them", n, auth.MaxSecrets))
	}
	for i, secret := range a.ClusterSecrets {
		if len(secret) < minClusterSecret {
			problems = append(problems, fmt.Errorf("auth.cluster_secret: secret %d is shorter than %d characters", i+1, minClusterSecret))
		}
	}
	ring, err := auth.NewKeyring(c)
	if err != nil || problems != nil {
		return nil, errors.Join(append(problems, err)...)
	}
	return ring, nil
}

// unreadable takes the place of a secret that cannot be read, so that everything else is checked, too.
func unreadable() string { return rand.Text() + rand.Text() }

const (
	minClusterSecret = 32
	// maxSecretFile is the maximum size of a file with secrets. A larger file is another one that was named by mistake.
	maxSecretFile = 64 << 10
)

// readSecrets reads the secrets of a file, one in each line, or of an environment variable.
func readSecrets(file, variable string) ([]string, error) {
	switch {
	case file != "" && variable != "":
		return nil, errors.New("give secret_file or secret_env, not both")
	case strings.HasPrefix(variable, EnvPrefix):
		return nil, fmt.Errorf("secret_env: %s begins with %s, as the variables of the configuration do; use another name", variable,
			EnvPrefix)
	case variable != "":
		secret := os.Getenv(variable)
		if secret == "" {
			return nil, fmt.Errorf("secret_env: the variable %s is not set", variable)
		}
		return []string{secret}, nil
	case file == "":
		return nil, nil
	}
	info, err := os.Stat(file)
	if err != nil {
		return nil, fmt.Errorf("secret_file: %w", err)
	}
	if info.Size() > maxSecretFile {
		return nil, fmt.Errorf("secret_file: %s is larger than %d bytes and cannot be a file with secrets", file, maxSecretFile)
	}
	body, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("secret_file: %w", err)
	}
	secrets := strings.Fields(string(body))
	if len(secrets) == 0 {
		return nil, fmt.Errorf("secret_file: %s is empty", file)
	}
	return secrets, nil
}
