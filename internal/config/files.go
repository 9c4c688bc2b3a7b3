package config

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/lingua-scheduler/lingua/internal/auth"
	"github.com/lingua-scheduler/lingua/internal/store/redisstore"
)

// validateTLS checks the files of the listener and of the requests to other instances.
func (c *Config) validateTLS(v *validator) {
	const certKey, keyKey, caKey = "server.tls_cert", "server.tls_key", "server.tls_ca"
	s := &c.Server
	switch {
	case s.TLSCert == "" && s.TLSKey == "":
	case s.TLSCert == "":
		v.require(false, certKey, "is missing beside tls_key: give both, or none").comparedWith(keyKey)
	case s.TLSKey == "":
		v.require(false, keyKey, "is missing beside tls_cert: give both, or none").comparedWith(certKey)
	default:
		if _, err := auth.LoadCertificate(s.TLSCert, s.TLSKey, slog.New(slog.DiscardHandler)); err != nil {
			v.require(false, certKey, "%s", err).comparedWith(keyKey)
		}
	}
	if _, err := auth.ClientTLS(s.TLSCA); err != nil {
		v.require(false, caKey, "%s", err)
	}
}

// PeerTLS returns the TLS configuration of requests to other instances.
func (s *Server) PeerTLS() (*tls.Config, error) { return auth.ClientTLS(s.TLSCA) }

// warnFiles returns warnings about files that everybody on this machine can read although they hold secrets, and about a certificate
// that has expired.
func (u *Unvalidated) warnFiles() []string {
	var warnings []string
	warn := func(format string, args ...any) { warnings = append(warnings, fmt.Sprintf(format, args...)) }
	if held := u.secretsInFile(); len(held) > 0 && readableByEveryone(u.file) {
		warn("%s: everybody on this machine can read this file, and it holds %s: chmod o-r", u.file, strings.Join(held, ", "))
	}
	a, s := &u.Config.Auth, &u.Config.Server
	var files []string
	for i := range a.Keys {
		files = append(files, a.Keys[i].SecretFile)
	}
	for i := range a.Signers {
		files = append(files, a.Signers[i].SecretFile)
	}
	files = append(files, s.TLSKey)
	slices.Sort(files)
	for _, file := range slices.Compact(files) {
		if file != "" && readableByEveryone(file) {
			warn("%s: everybody on this machine can read this file, and it holds a secret: chmod o-r", file)
		}
	}
	if s.TLSCert != "" && s.TLSKey != "" {
		if c, err := auth.LoadCertificate(s.TLSCert, s.TLSKey, slog.New(slog.DiscardHandler)); err == nil &&
			time.Now().After(c.Leaf().NotAfter) {
			warn("server.tls_cert: %s has expired at %s: clients refuse it", s.TLSCert, c.Leaf().NotAfter.Format(time.RFC3339))
		}
	}
	return warnings
}

// secretsInFile returns the keys with secrets that have their value from the file. The hash of a key is not a secret.
func (u *Unvalidated) secretsInFile() []string {
	var held []string
	for _, key := range []string{
		"auth.operator_keys", "auth.node_tokens", "auth.session_secret", "auth.cluster_secret", "callback.secret",
		redisKey + ".password", redisKey + ".sentinel_password", "scheduler.model_hub.token",
	} {
		if u.fromFile[key] {
			held = append(held, key)
		}
	}
	for key, url := range map[string]string{storeKey: u.Config.Store, redisKey + ".url": u.Config.Scheduler.Phase2.Redis.URL} {
		if a, err := redisstore.ParseAddress(url); err == nil && a.Password != "" && u.fromFile[key] {
			held = append(held, key)
		}
	}
	slices.Sort(held)
	return held
}

// readableByEveryone reports whether every user of this machine may read a file.
func readableByEveryone(file string) bool {
	info, err := os.Stat(file)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o004 != 0
}

// withoutTargets empties callback.allowed_targets if there are keys and nothing sets it, and returns a warning if it did: with keys,
// other machines reach the scheduler, and what its default allows, this machine, is what it must protect.
func (u *Unvalidated) withoutTargets() string {
	if _, set := u.source[allowedTargetsKey]; set || !u.Config.Auth.Configured() {
		return ""
	}
	u.Config.Callback.AllowedTargets = []string{}
	return allowedTargetsKey + ": is not set, and there are keys: no node may have a callback_url; set the networks of your HTTP nodes, " +
		"or [] if there are none"
}
