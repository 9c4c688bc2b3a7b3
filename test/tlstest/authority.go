// Package tlstest makes certificates for tests: an authority of its own, and certificates for this machine that it has signed.
package tlstest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority signs certificates.
type Authority struct {
	// File has the certificate of the authority in PEM.
	File string

	cert   *x509.Certificate
	key    *ecdsa.PrivateKey
	serial int64
}

// NewAuthority makes an authority, which is valid for an hour.
func NewAuthority(tb testing.TB) *Authority {
	tb.Helper()
	a := &Authority{File: filepath.Join(tb.TempDir(), "ca.pem"), serial: 1}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	a.key = newKey(tb)
	der, err := x509.CreateCertificate(rand.Reader, template, template, &a.key.PublicKey, a.key)
	if err != nil {
		tb.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		tb.Fatal(err)
	}
	write(tb, a.File, "CERTIFICATE", der)
	return a
}

// Pair is the files of a certificate and of its key.
type Pair struct{ Cert, Key string }

// NewPair makes the files of a certificate for 127.0.0.1 and localhost, which is valid for an hour.
func (a *Authority) NewPair(tb testing.TB) Pair {
	tb.Helper()
	dir := tb.TempDir()
	p := Pair{Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}
	a.Renew(tb, p, time.Hour)
	return p
}

// Renew replaces the files of a pair by those of another certificate with another key, and returns its serial number. A negative
// lifetime makes a certificate that has expired.
func (a *Authority) Renew(tb testing.TB, p Pair, lifetime time.Duration) string {
	tb.Helper()
	a.serial++
	template := &x509.Certificate{
		SerialNumber: big.NewInt(a.serial), Subject: pkix.Name{CommonName: "scheduler"},
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(lifetime),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	key := newKey(tb)
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		tb.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		tb.Fatal(err)
	}
	write(tb, p.Cert, "CERTIFICATE", der)
	write(tb, p.Key, "EC PRIVATE KEY", keyDER)
	return template.SerialNumber.String()
}

func newKey(tb testing.TB) *ecdsa.PrivateKey {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return key
}

// write replaces a file as a whole, as programs that renew certificates do.
func write(tb testing.TB, file, kind string, der []byte) {
	tb.Helper()
	next := file + ".new"
	if err := os.WriteFile(next, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		tb.Fatal(err)
	}
	if err := os.Rename(next, file); err != nil {
		tb.Fatal(err)
	}
}
