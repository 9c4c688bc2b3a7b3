package main

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/lingua-scheduler/lingua/internal/auth"
)

// trust has the authorities that commands trust when they connect to a scheduler.
type trust struct {
	CA string `help:"File with the authorities, in PEM, that signed the certificate of the scheduler; default from LINGUA_CA. Without it those of the system are trusted." name:"ca" placeholder:"FILE"`
}

// tlsConfig returns the TLS configuration that trusts them; nil, the default, without a file.
func (t *trust) tlsConfig() (*tls.Config, error) {
	if t.CA == "" {
		return nil, nil
	}
	cfg, err := auth.ClientTLS(t.CA)
	if err != nil {
		return nil, usageError{fmt.Errorf("--ca or LINGUA_CA: %w", err)}
	}
	return cfg, nil
}

// httpClient returns an HTTP client that trusts them; nil, the default client, without a file.
func (t *trust) httpClient() (*http.Client, error) {
	cfg, err := t.tlsConfig()
	if cfg == nil {
		return nil, err
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: cfg, Proxy: http.ProxyFromEnvironment}}, nil
}

// doRequest sends a request with the authorities that are trusted.
func (t *trust) doRequest(req *http.Request) (*http.Response, error) {
	c, err := t.httpClient()
	switch {
	case err != nil:
		return nil, err
	case c == nil:
		return http.DefaultClient.Do(req)
	}
	req.Close = true // the client is used once
	return c.Do(req)
}

// parseAddress parses the address of a scheduler: a URL, or a host and a port, which means http.
func parseAddress(text string) (*url.URL, error) {
	address := strings.TrimSuffix(text, "/")
	if _, _, err := net.SplitHostPort(address); err == nil && !strings.Contains(address, "/") {
		address = "http://" + address
	}
	base, err := url.Parse(address)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, usageError{fmt.Errorf("--server or LINGUA_URL: %q is not an address such as http://127.0.0.1:5010", text)}
	}
	return base, nil
}

// serverAddresses holds the addresses of the instances of one scheduler, for commands that keep a connection open. Any
// instance will do; when the connection to one is lost, they connect to another.
type serverAddresses struct {
	trust
	Server []string `help:"Address of the scheduler; several, with commas or by repeating the flag, if its instances have no load balancer in front. Default from LINGUA_URL." default:"http://127.0.0.1:5010" placeholder:"URL" aliases:"url"`
}

// urls returns the addresses as URLs.
func (s *serverAddresses) urls() ([]string, error) {
	urls := make([]string, len(s.Server))
	for i, text := range s.Server {
		u, err := parseAddress(text)
		if err != nil {
			return nil, err
		}
		urls[i] = u.String()
	}
	return urls, nil
}

// redacted returns the addresses without passwords, for messages.
func (s *serverAddresses) redacted() string {
	names := make([]string, len(s.Server))
	for i, text := range s.Server {
		if u, err := parseAddress(text); err == nil {
			names[i] = u.Redacted()
		}
	}
	return strings.Join(names, ", ")
}
