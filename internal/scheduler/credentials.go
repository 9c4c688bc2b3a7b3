package scheduler

import (
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"

	"github.com/lingua-scheduler/lingua/internal/auth"
	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/tlsfile"
)

// credentials are what this instance authenticates callers with, and itself to them.
type credentials struct {
	auth        *auth.Authenticator
	certificate *tlsfile.Certificate // nil: no TLS
	peers       *tls.Config          // for requests to other instances
}

// loadCredentials reads the keys and the certificates of a configuration.
func loadCredentials(cfg *config.Config, log *slog.Logger) (c credentials, err error) {
	keyring, err := cfg.Auth.Keyring()
	if err != nil {
		return c, err
	}
	c.auth = auth.NewAuthenticator(keyring, nil)
	if cfg.Server.TLSCert != "" {
		if c.certificate, err = tlsfile.Load(cfg.Server.TLSCert, cfg.Server.TLSKey, log); err != nil {
			return c, err
		}
	}
	c.peers, err = cfg.Server.PeerTLS()
	return c, err
}

// serve serves a listener, with TLS if there is a certificate.
func (s *Scheduler) serve(srv *http.Server, l net.Listener) error {
	if s.credentials.certificate == nil {
		return srv.Serve(l)
	}
	srv.TLSConfig = s.credentials.certificate.ServerConfig()
	return srv.ServeTLS(l, "", "")
}
