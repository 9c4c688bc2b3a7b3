package auth

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
)

// ClientTLS returns the configuration of a client that trusts the authorities in a PEM file, and no others. Without a file it trusts
// those of the system.
func ClientTLS(caFile string) (*tls.Config, error) {
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if caFile == "" {
		return cfg, nil
	}
	body, err := os.ReadFile(caFile)
	if err != nil {
		return nil, err
	}
	cfg.RootCAs = x509.NewCertPool()
	if !cfg.RootCAs.AppendCertsFromPEM(body) {
		return nil, fmt.Errorf("%s has no certificate in PEM", caFile)
	}
	return cfg, nil
}
