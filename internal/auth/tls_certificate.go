package auth

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// checkInterval is how often the files are read at most. A handshake that finds the last check older reads them.
const checkInterval = time.Second

// pair is the content of the two files.
type pair struct{ cert, key []byte }

func readPair(certFile, keyFile string) (pair, error) {
	cert, certErr := os.ReadFile(certFile)
	key, keyErr := os.ReadFile(keyFile)
	return pair{cert, key}, errors.Join(certErr, keyErr)
}

// parse returns the certificate of the pair.
func (p pair) parse() (*tls.Certificate, error) {
	c, err := tls.X509KeyPair(p.cert, p.key)
	if err != nil {
		return nil, err
	}
	if c.Leaf == nil {
		c.Leaf, err = x509.ParseCertificate(c.Certificate[0])
	}
	return &c, err
}

// Certificate is the certificate of a server. It follows its files: a new pair is used from the next handshake on, at most a second
// after it was written. A pair that is not valid, as while only one of the files has been replaced, leaves the certificate as it is.
type Certificate struct {
	certFile, keyFile string
	log               *slog.Logger
	now               func() time.Time
	current           atomic.Pointer[tls.Certificate]

	// mu guards the fields below. The handshake that reads the files holds it; others use the certificate as it is.
	mu      sync.Mutex
	checked time.Time
	inForce pair
	problem string // of the last check; it is logged once
}

// LoadCertificate reads a certificate and its key, in PEM. The certificate may be followed by intermediate ones.
func LoadCertificate(certFile, keyFile string, log *slog.Logger) (*Certificate, error) {
	c := &Certificate{certFile: certFile, keyFile: keyFile, log: log, now: time.Now}
	p, err := readPair(certFile, keyFile)
	if err != nil {
		return nil, err
	}
	parsed, err := p.parse()
	if err != nil {
		return nil, fmt.Errorf("%s and %s are not a certificate and its key: %w", certFile, keyFile, err)
	}
	c.current.Store(parsed)
	c.checked, c.inForce = c.now(), p
	return c, nil
}

// Leaf returns the certificate of the server itself.
func (c *Certificate) Leaf() *x509.Certificate { return c.current.Load().Leaf }

// ServerConfig returns the configuration of a server: TLS 1.2 or newer, and HTTP/1.1 only, because WebSockets share its port.
func (c *Certificate) ServerConfig() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			c.refresh()
			return c.current.Load(), nil
		},
	}
}

// refresh reads the files if the last check is old enough.
func (c *Certificate) refresh() {
	if !c.mu.TryLock() {
		return // another handshake reads them
	}
	defer c.mu.Unlock()
	now := c.now()
	if now.Sub(c.checked) < checkInterval {
		return
	}
	c.checked = now
	p, err := readPair(c.certFile, c.keyFile)
	if err == nil && bytes.Equal(p.cert, c.inForce.cert) && bytes.Equal(p.key, c.inForce.key) {
		c.problem = ""
		return
	}
	var parsed *tls.Certificate
	if err == nil {
		parsed, err = p.parse()
	}
	if err != nil {
		if c.problem != err.Error() {
			c.problem = err.Error()
			c.log.Warn("the certificate of this server has changed and cannot be used: the one before stays in force", "cert", c.certFile,
				"error", err)
		}
		return
	}
	c.current.Store(parsed)
	c.inForce, c.problem = p, ""
	c.log.Info("the certificate of this server was replaced", "cert", c.certFile, "serial", parsed.Leaf.SerialNumber.String(), "expires",
		parsed.Leaf.NotAfter)
}
