package auth

import (
	"bytes"
	"crypto/tls"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/test/tlstest"
)

// server is an HTTPS server with a certificate from files, and a clock that the test moves.
type server struct {
	address     string
	certificate *Certificate
	log         bytes.Buffer // written by handshakes, which the test makes one after another
	clock       atomic.Int64 // seconds
}

func startServer(t *testing.T, p tlstest.Pair) *server {
	t.Helper()
	s := new(server)
	var err error
	if s.certificate, err = LoadCertificate(p.Cert, p.Key, slog.New(slog.NewTextHandler(&s.log, nil))); err != nil {
		t.Fatal(err)
	}
	s.certificate.now = func() time.Time { return time.Unix(s.clock.Load(), 0) }
	s.certificate.checked = time.Unix(0, 0)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.address = l.Addr().String()
	srv := &http.Server{
		Handler:   http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Proto) }),
		TLSConfig: s.certificate.ServerConfig(), ErrorLog: log.New(io.Discard, "", 0),
	}
	ended := make(chan error, 1)
	go func() { ended <- srv.ServeTLS(l, "", "") }()
	t.Cleanup(func() {
		_ = srv.Close()
		<-ended
	})
	return s
}

// serial returns the serial number of the certificate that a new connection gets.
func (s *server) serial(t *testing.T, a *tlstest.Authority) string {
	t.Helper()
	cfg, err := ClientTLS(a.File)
	if err != nil {
		t.Fatal(err)
	}
	c, err := tls.Dial("tcp", s.address, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return c.ConnectionState().PeerCertificates[0].SerialNumber.String()
}

func TestCertificateFollowsItsFiles(t *testing.T) {
	t.Parallel()
	a := tlstest.NewAuthority(t)
	p := a.NewPair(t)
	s := startServer(t, p)
	first := s.serial(t, a)
	second := a.Renew(t, p, time.Hour)
	if got := s.serial(t, a); got != first {
		t.Errorf("the files were read again within a second: certificate %s", got)
	}
	s.clock.Add(1)
	if got := s.serial(t, a); got != second {
		t.Errorf("certificate %s after a second, want %s", got, second)
	}
}

// TestBrokenPairLeavesTheCertificate: while the files do not match, or are unreadable, the certificate before them is used, and the log
// says so once.
func TestBrokenPairLeavesTheCertificate(t *testing.T) {
	t.Parallel()
	a := tlstest.NewAuthority(t)
	p, other := a.NewPair(t), a.NewPair(t)
	s := startServer(t, p)
	first := s.serial(t, a)
	whole, err := os.ReadFile(p.Cert)
	if err != nil {
		t.Fatal(err)
	}
	for name, breakIt := range map[string]func() error{
		"of another key": func() error { return os.Rename(other.Cert, p.Cert) },
		"of no PEM":      func() error { return os.WriteFile(p.Cert, []byte("no certificate"), 0o600) },
		"that is gone":   func() error { return os.Remove(p.Cert) },
	} {
		s.log.Reset()
		if err := breakIt(); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			s.clock.Add(1)
			if got := s.serial(t, a); got != first {
				t.Errorf("a certificate %s: %s is used, want %s", name, got, first)
			}
		}
		if n := strings.Count(s.log.String(), "level=WARN"); n != 1 {
			t.Errorf("a certificate %s: %d warnings, want one:\n%s", name, n, s.log.String())
		}
		if err := os.WriteFile(p.Cert, whole, 0o600); err != nil {
			t.Fatal(err)
		}
		s.clock.Add(1)
		s.serial(t, a)
	}
	second := a.Renew(t, p, time.Hour)
	s.clock.Add(1)
	if got := s.serial(t, a); got != second {
		t.Errorf("certificate %s after the files are valid again, want %s", got, second)
	}
}

func TestServerVersions(t *testing.T) {
	t.Parallel()
	a := tlstest.NewAuthority(t)
	s := startServer(t, a.NewPair(t))
	cfg, err := ClientTLS(a.File)
	if err != nil {
		t.Fatal(err)
	}
	for version, allowed := range map[uint16]bool{tls.VersionTLS10: false, tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true} {
		c := cfg.Clone()
		c.MinVersion, c.MaxVersion = version, version
		c.NextProtos = []string{"h2", "http/1.1"}
		conn, err := tls.Dial("tcp", s.address, c)
		if (err == nil) != allowed {
			t.Errorf("%s: %v", tls.VersionName(version), err)
		}
		if err != nil {
			continue
		}
		if got := conn.ConnectionState().NegotiatedProtocol; got != "http/1.1" {
			t.Errorf("%s: the protocol is %q", tls.VersionName(version), got)
		}
		_ = conn.Close()
	}
}

func TestLoadRefusesWhatIsNoPair(t *testing.T) {
	t.Parallel()
	a := tlstest.NewAuthority(t)
	p, other := a.NewPair(t), a.NewPair(t)
	for name, pair := range map[string]tlstest.Pair{
		"swapped": {Cert: p.Key, Key: p.Cert}, "of two certificates": {Cert: p.Cert, Key: other.Key},
		"without a key": {Cert: p.Cert, Key: filepath.Join(t.TempDir(), "none")},
	} {
		if _, err := LoadCertificate(pair.Cert, pair.Key, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), pair.Key) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestClientTrustsItsAuthorityOnly(t *testing.T) {
	t.Parallel()
	a, other := tlstest.NewAuthority(t), tlstest.NewAuthority(t)
	s := startServer(t, a.NewPair(t))
	for file, want := range map[string]bool{a.File: true, other.File: false, "": false} {
		cfg, err := ClientTLS(file)
		if err != nil {
			t.Fatal(err)
		}
		c := &http.Client{Transport: &http.Transport{TLSClientConfig: cfg}}
		resp, err := c.Get("https://" + s.address)
		if (err == nil) != want {
			t.Errorf("with the authority %q: %v", file, err)
		}
		if err == nil {
			body, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if string(body) != "HTTP/1.1" {
				t.Errorf("the protocol is %s", body)
			}
		}
		c.CloseIdleConnections()
	}
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, []byte("none"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{empty, filepath.Join(t.TempDir(), "none")} {
		if _, err := ClientTLS(file); err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: %v", file, err)
		}
	}
}
