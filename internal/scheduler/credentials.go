package scheduler

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"

	"github.com/lingua-scheduler/lingua/internal/auth"
	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/core"
)

// credentials are what this instance authenticates callers with, and itself to them.
type credentials struct {
	keyring     *auth.Keyring // that was loaded at the start
	auth        *auth.Authenticator
	certificate *auth.Certificate // nil: no TLS
	peers       *tls.Config       // for requests to other instances
	peerSecrets *auth.PeerSecrets // sign these requests
	reloader    *config.Reloader
	replaced    func() // called after the keys were replaced
}

// loadCredentials reads the keys and the certificates of a configuration.
func loadCredentials(cfg *config.Config, log *slog.Logger) (c *credentials, err error) {
	c = &credentials{peerSecrets: auth.NewPeerSecrets(cfg.Auth.ClusterSecrets)}
	if c.keyring, err = cfg.Auth.Keyring(); err != nil {
		return nil, err
	}
	if cfg.Server.TLSCert != "" {
		if c.certificate, err = auth.LoadCertificate(cfg.Server.TLSCert, cfg.Server.TLSKey, log); err != nil {
			return c, err
		}
	}
	c.reloader = config.NewReloader(*cfg, log)
	c.reloader.Register(config.Section{
		Keys: []string{"auth.operator_keys", "auth.node_tokens", "auth.session_secret", "auth.cluster_secret", "auth.keys",
			"auth.signers", "auth.anonymous_role", "auth.anonymous_from", "auth.anonymous_hosts"},
		Prepare: c.prepareKeys,
	})
	c.reloader.Register(config.Section{Keys: []string{"dashboard.links"}, Prepare: c.prepareLinks})
	c.peers, err = cfg.Server.PeerTLS()
	return c, err
}

// authenticate begins to authenticate callers, except for those that are revoked.
func (c *credentials) authenticate(revocations auth.Revocations) {
	c.auth = auth.NewAuthenticator(c.keyring, revocations)
}

// errKeysAppear says that a reload cannot begin or end the use of keys: whether there are any decides about other things too, such as
// which hosts the server answers to and whether nodes need a secret.
var errKeysAppear = errors.New("auth: a scheduler without keys gets its first ones, and one with keys loses its last ones, only by a " +
	"restart")

// prepareKeys is the section of a reload that replaces the keys and signers.
func (c *credentials) prepareKeys(next *config.Config, _ config.ReloadRequest) (config.SectionChange, error) {
	keyring, err := next.Auth.Keyring()
	if err != nil {
		return config.SectionChange{}, err
	}
	current := c.auth.Keyring()
	if current.Empty() != keyring.Empty() {
		return config.SectionChange{}, errKeysAppear
	}
	return config.SectionChange{Changed: current.Changes(keyring), Apply: func() {
		c.auth.Replace(keyring)
		c.peerSecrets.Replace(next.Auth.ClusterSecrets)
		c.replaced()
	}}, nil
}

// prepareLinks is the section of a reload that replaces the links of the dashboard. They are read from the configuration in force.
func (c *credentials) prepareLinks(next *config.Config, _ config.ReloadRequest) (config.SectionChange, error) {
	if slices.Equal(c.reloader.InForce().Config.Dashboard.Links, next.Dashboard.Links) {
		return config.SectionChange{}, nil
	}
	return config.SectionChange{Changed: []string{fmt.Sprintf("dashboard.links: %d links", len(next.Dashboard.Links))}}, nil
}

// serve serves a listener, with TLS if there is a certificate.
func (s *Scheduler) serve(srv *http.Server, l net.Listener) error {
	if s.credentials.certificate == nil {
		return srv.Serve(l)
	}
	srv.TLSConfig = s.credentials.certificate.ServerConfig()
	return srv.ServeTLS(l, "", "")
}

// SetConfigSource sets where a reload loads the configuration from. Without it there is nothing to reload.
func (s *Scheduler) SetConfigSource(source config.Source) { s.credentials.reloader.SetSource(source) }

// SetConfigFile sets the name of the file that the configuration was loaded from, for people.
func (s *Scheduler) SetConfigFile(name string) { s.credentials.reloader.SetFile(name) }

// Reload loads the configuration again and puts in force what can change without a restart. It logs what it did.
func (s *Scheduler) Reload(r config.ReloadRequest) (config.ReloadResult, error) {
	return s.credentials.reloader.Reload(r)
}

// peerClient makes the client of an instance for requests to the others.
func (c *credentials) peerClient(instance core.InstanceID) *auth.PeerClient {
	return auth.NewPeerClient(instance, c.peerSecrets, c.peers, func() bool { return !c.auth.Keyring().Empty() })
}
