package main

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/lingua-scheduler/lingua/internal/auth"
	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/core"
)

type keysCmd struct {
	New   keysNewCmd   `cmd:"" help:"Make a random secret, and the table of a key with it for the config file."`
	Hash  keysHashCmd  `cmd:"" help:"Read a secret from standard input and print its SHA-256 for the config file."`
	Check keysCheckCmd `cmd:"" help:"List the keys and signers of a config file, or say which key a secret belongs to."`
}

type keysNewCmd struct {
	Name       string        `help:"Public name of the key, which audit entries and revocations show." placeholder:"NAME"`
	Role       string        `help:"operator, viewer, metrics, minter or node." placeholder:"ROLE"`
	Tenant     string        `help:"Tenant of a viewer, a minter or a node." placeholder:"TENANT"`
	Nodes      string        `help:"Pattern of the node ids that a key of role node is for, such as gpu-*." placeholder:"PATTERN"`
	Pool       string        `help:"Capability pool of the nodes of a key of role node." placeholder:"ID"`
	MaxTTL     time.Duration `help:"Maximum lifetime of the session tokens that a minter mints, such as 1h." name:"max-ttl" placeholder:"DURATION"`
	SecretFile string        `help:"Write the secret to this file, which must not exist, for its owner only, and do not print it." placeholder:"FILE" type:"path"`
}

// Help explains the command below the summary of its flags.
func (c *keysNewCmd) Help() string {
	return `Without --name it makes only a secret and its hash: the second secret of a key during a rotation, or with --secret-file the
secret of a signer.

Examples:

    # a key for a person; the table goes into the config file of every instance
    lingua keys new --name alice --role operator

    # a key for the nodes of a tenant, in a file for the nodes
    lingua keys new --name acme-gpus --role node --tenant acme --nodes 'acme-gpu-*' --secret-file node.key

    # a secret that signs session tokens
    lingua keys new --secret-file signer-2027`
}

// Validate checks the flags before a secret is made.
func (c *keysNewCmd) Validate() error {
	if c.Name == "" {
		if c.Role != "" || c.Tenant != "" || c.Nodes != "" || c.Pool != "" || c.MaxTTL != 0 {
			return errors.New("--name is missing: a key has a name")
		}
		return nil
	}
	key := auth.KeyConfig{Name: c.Name, Role: auth.Role(c.Role), Tenant: core.TenantID(c.Tenant), Nodes: c.Nodes, Pool: core.PoolID(c.Pool),
		MaxTTL: c.MaxTTL}
	return key.Check()
}

// Run makes a secret.
func (c *keysNewCmd) Run(io streams) error {
	secret := newSecret()
	if c.SecretFile != "" {
		if err := writeSecret(c.SecretFile, secret); err != nil {
			return err
		}
		fmt.Fprintf(io.err, "the secret is in %s\n", c.SecretFile)
	} else {
		fmt.Fprintf(io.out, "secret: %s\n", secret)
		fmt.Fprintln(io.err, "this is the only time that the secret is shown")
	}
	if c.Name == "" {
		fmt.Fprintf(io.out, "sha256: %s\n", hashOf(secret))
		return nil
	}
	return c.writeTable(io.out, hashOf(secret))
}

// writeTable writes the table of the key for the config file.
func (c *keysNewCmd) writeTable(w io.Writer, hash string) error {
	var table strings.Builder
	fmt.Fprintf(&table, "\n[[auth.keys]]\nname = %q\nrole = %q\n", c.Name, c.Role)
	for _, field := range []struct{ name, value string }{{"tenant", c.Tenant}, {"nodes", c.Nodes}, {"pool", c.Pool}} {
		if field.value != "" {
			fmt.Fprintf(&table, "%s = %q\n", field.name, field.value)
		}
	}
	if c.MaxTTL != 0 {
		fmt.Fprintf(&table, "max_ttl = %d\n", int(c.MaxTTL.Seconds()))
	}
	fmt.Fprintf(&table, "sha256 = [%q]\n", hash)
	_, err := io.WriteString(w, table.String())
	return err
}

// newSecret makes a random secret of 260 bits. The prefix lets programs that look for leaked secrets recognise it.
func newSecret() string { return "lingua_" + rand.Text() + rand.Text() }

// hashOf returns the hash of a secret as the config file has it.
func hashOf(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// writeSecret writes a secret to a new file that only its owner can read.
func writeSecret(file, secret string) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return usageError{fmt.Errorf("--secret-file: %s exists: secrets are not overwritten; name another file", file)}
	}
	if err != nil {
		return usageError{fmt.Errorf("--secret-file: %w", err)}
	}
	_, err = f.WriteString(secret + "\n")
	return errors.Join(err, f.Close())
}

type keysHashCmd struct{}

// Run hashes a secret.
func (c *keysHashCmd) Run(io streams) error {
	secret, err := readSecret(io)
	if err != nil {
		return err
	}
	if err := auth.CheckSecret(secret); err != nil {
		return usageError{err}
	}
	fmt.Fprintln(io.out, hashOf(secret))
	return nil
}

// maxSecret is the maximum length of a secret or a token on standard input.
const maxSecret = 4 << 10

// readSecret reads a secret from standard input: an argument would be in the history of the shell and in the list of processes.
func readSecret(s streams) (string, error) {
	if s.in == nil {
		return "", usageError{errNoSecret}
	}
	text, err := io.ReadAll(io.LimitReader(s.in, maxSecret+1))
	if err != nil {
		return "", err
	}
	switch words := strings.Fields(string(text)); {
	case len(text) > maxSecret:
		return "", usageError{fmt.Errorf("standard input is longer than %d bytes, which no secret is", maxSecret)}
	case len(words) == 0:
		return "", usageError{errNoSecret}
	case len(words) > 1:
		return "", usageError{fmt.Errorf("standard input has %d words; a secret is one", len(words))}
	default:
		return words[0], nil
	}
}

var errNoSecret = errors.New("there is no secret on standard input, such as: lingua keys hash < node.key")

type keysCheckCmd struct {
	File  string `arg:"" help:"The config file."`
	Stdin bool   `help:"Read a secret or a session token from standard input and say which key it belongs to. The exit code is 1 if it would be refused."`
	JSON  bool   `help:"Print the list as JSON." name:"json"`
}

// Run lists the keys, or finds the key of a secret.
func (c *keysCheckCmd) Run(io streams) error {
	cfg, warnings, err := config.Load(c.File, io.environ).Validate()
	if err != nil {
		return usageError{fmt.Errorf("%s is not valid\n%w", c.File, err)}
	}
	ring, err := cfg.Auth.Keyring()
	if err != nil {
		return usageError{err}
	}
	for _, w := range warnings {
		fmt.Fprintln(io.err, "warning:", w)
	}
	if c.Stdin {
		return c.identify(ring, io)
	}
	return c.list(ring, io.out)
}

// identify says which key a secret belongs to.
func (c *keysCheckCmd) identify(ring *auth.Keyring, io streams) error {
	secret, err := readSecret(io)
	if err != nil {
		return err
	}
	if ring.Empty() {
		return errors.New("the configuration has no keys: every caller is an operator")
	}
	p, reason := auth.NewAuthenticator(ring, nil).Authenticate(secret)
	if reason != "" {
		return fmt.Errorf("the secret would be refused: %s", reason)
	}
	if p.Role == auth.Session {
		fmt.Fprintf(io.out, "a token for the session %s, minted by %s and signed by %s; it expires at %s\n", p.Session, p.Key, p.KID,
			p.Expires.UTC().Format(time.RFC3339))
		return nil
	}
	fmt.Fprintf(io.out, "%s: %s\n", p.Key, permissions(p))
	return nil
}

// listedKey is a key in the output of --json.
type listedKey struct {
	Name      string `json:"name"`
	Role      string `json:"role"`
	Tenant    string `json:"tenant,omitempty"`
	State     string `json:"state"`
	NotBefore string `json:"not_before,omitempty"`
	NotAfter  string `json:"not_after,omitempty"`
	Secrets   int    `json:"secrets"`
	May       string `json:"may"`
}

// listedSigner is a signer in the output of --json.
type listedSigner struct {
	KID string `json:"kid"`
	Use string `json:"use"`
}

// list lists the keys and the signers.
func (c *keysCheckCmd) list(ring *auth.Keyring, out io.Writer) error {
	keys, signers := []listedKey{}, []listedSigner{}
	for _, k := range ring.Keys() {
		keys = append(keys, listedKey{
			Name: k.Key, Role: string(k.Role), Tenant: string(k.Tenant), State: cmp.Or(string(k.Valid(time.Now())), "valid"),
			NotBefore: formatValidity(k.Issued), NotAfter: formatValidity(k.NotAfter), Secrets: k.Secrets, May: permissions(&k.Principal),
		})
	}
	for _, s := range ring.Signers() {
		signers = append(signers, listedSigner(s))
	}
	if c.JSON {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false)
		return enc.Encode(map[string]any{"keys": keys, "signers": signers, "keys_digest": ring.Digest()})
	}
	if ring.Empty() {
		_, err := fmt.Fprintln(out, "no keys: every caller is an operator, and only this machine can connect")
		return err
	}
	t := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(t, "KEY\tROLE\tTENANT\tSTATE\tFROM\tUNTIL\tSECRETS\tMAY")
	for _, k := range keys {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%s\n", k.Name, k.Role, cmp.Or(k.Tenant, "–"), k.State, cmp.Or(k.NotBefore, "–"),
			cmp.Or(k.NotAfter, "–"), k.Secrets, k.May)
	}
	if len(signers) > 0 {
		fmt.Fprintln(t, "\nSIGNER\tUSE")
		for _, s := range signers {
			fmt.Fprintf(t, "%s\t%s\n", s.KID, s.Use)
		}
	}
	fmt.Fprintf(t, "\ndigest of all: %s\n", ring.Digest())
	return t.Flush()
}

func formatValidity(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.UTC().Format(time.RFC3339)
}

// permissions says in a sentence what a caller may do.
func permissions(p *auth.Principal) string {
	of := "all tenants"
	if p.Tenant != "" {
		of = "tenant " + string(p.Tenant)
	}
	switch p.Role {
	case auth.Operator:
		return "everything"
	case auth.Viewer:
		return "read nodes, jobs, events and audit entries of " + of + ", without what was said"
	case auth.Metrics:
		return "read /metrics"
	case auth.Minter:
		return fmt.Sprintf("mint, list and end sessions of %s for up to %s; dispatch, read and cancel its jobs", of, p.MaxTTL)
	case auth.Node:
		if p.Tenant == "" {
			of = "all tenants together"
		}
		if p.Pool != "" {
			of += ", in the pool " + string(p.Pool)
		}
		return fmt.Sprintf("register and serve as %s, for %s", p.Nodes, of)
	}
	return "nothing"
}
