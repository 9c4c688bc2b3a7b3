package scheduler_test

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/client"
	"github.com/lingua-scheduler/lingua/internal/auth"
	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/lab"
	"github.com/lingua-scheduler/lingua/node"
	"github.com/lingua-scheduler/lingua/test/fleet"
	"github.com/lingua-scheduler/lingua/test/redistest"
	"github.com/lingua-scheduler/lingua/test/tlstest"
	"github.com/lingua-scheduler/lingua/wire"
)

// secureClients makes clients of schedulers whose certificates an authority has signed.
type secureClients struct {
	tls  *tls.Config
	http *http.Client
}

func newSecureClients(t *testing.T, a *tlstest.Authority) *secureClients {
	t.Helper()
	cfg, err := auth.ClientTLS(a.File)
	if err != nil {
		t.Fatal(err)
	}
	c := &secureClients{tls: cfg, http: &http.Client{Transport: &http.Transport{TLSClientConfig: cfg}}}
	t.Cleanup(c.http.CloseIdleConnections)
	return c
}

// serial returns the serial number of the certificate that a new connection gets.
func (c *secureClients) serial(t *testing.T, address string) string {
	t.Helper()
	conn, err := tls.Dial("tcp", address, c.tls)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.String()
}

// runNode runs a node until the test ends. It answers with the number of bytes that it was given.
func (c *secureClients) runNode(t *testing.T, url, id string) {
	t.Helper()
	fleet.StartNodes(t, func(ctx context.Context, job *node.Job) (node.Result, error) {
		audio, err := job.Audio(ctx)
		if err != nil {
			return node.Result{}, err
		}
		return node.Result{TextSrc: strings.Repeat("x", len(audio)/3200), Speech: []byte("speech")}, nil
	}, node.Config{
		URL: url, ID: id, Slots: 4, HTTPClient: c.http,
		Declaration: wire.Declaration{SemanticLangs: []string{"en", "es"}, TTSLangs: []string{"en", "es"}},
	})
}

// startSession starts a session that asks for speech.
func (c *secureClients) startSession(t *testing.T, url string) fleet.Session {
	t.Helper()
	s := fleet.StartSession(t, client.Config{URL: url, HTTPClient: c.http, Start: wire.SessionStart{TTS: true}})
	s.Unbroken = true
	return s
}

// wantResult speaks an utterance and checks its result, over the connection that is open.
func wantResult(t *testing.T, s fleet.Session) {
	t.Helper()
	if r, err := s.Speak(tone(100)); err != nil || r.TextSrc != "x" {
		t.Fatalf("the result is %q: %v", r.TextSrc, err)
	}
}

func secureConfig(a *tlstest.Authority, p tlstest.Pair) config.Config {
	cfg := config.Default()
	cfg.Server.Port, cfg.Server.ShutdownSeconds = 0, 1
	cfg.Server.TLSCert, cfg.Server.TLSKey, cfg.Server.TLSCA = p.Cert, p.Key, a.File
	return cfg
}

// TestCertificateRotation replaces the certificate while a node and a session are connected by wss: they stay connected, and new
// connections get the new certificate.
func TestCertificateRotation(t *testing.T) {
	t.Parallel()
	a := tlstest.NewAuthority(t)
	p := a.NewPair(t)
	address := strings.TrimPrefix(startScheduler(t, secureConfig(a, p)), "http://")
	clients := newSecureClients(t, a)
	clients.runNode(t, "https://"+address, "gpu-1")
	s := clients.startSession(t, "wss://"+address)
	wantResult(t, s)

	second := a.Renew(t, p, time.Hour)
	waitUntil(t, "the new certificate", waitLimit, func() bool { return clients.serial(t, address) == second })
	wantResult(t, s)
	wantResult(t, clients.startSession(t, "https://"+address))

	if resp, err := http.Get("http://" + address + "/healthz"); err != nil || resp.StatusCode != http.StatusBadRequest {
		t.Errorf("without TLS: %v, %v", resp, err)
	} else {
		_ = resp.Body.Close()
	}
	if _, err := fleet.Start(t.Context(), client.Config{URL: "wss://" + address}); err == nil {
		t.Error("a client that does not trust the authority has connected")
	}
}

// TestInstancesWithTLS: an instance advertises https, nodes fetch audio from the instance that has the session, and instances ask each
// other for jobs over TLS with an authority of their own.
func TestInstancesWithTLS(t *testing.T) {
	t.Parallel()
	a := tlstest.NewAuthority(t)
	redis := redistest.Start(t)
	cfg := secureConfig(a, a.NewPair(t))
	cfg.Store = redis.URL()
	clients := newSecureClients(t, a)
	var urls []string
	var apis []*lab.API
	for range 2 {
		address := strings.TrimPrefix(startScheduler(t, cfg), "http://")
		urls = append(urls, "https://"+address)
		api := lab.NewAPI("https://" + address)
		api.SetTLS(clients.tls)
		t.Cleanup(api.Close)
		apis = append(apis, api)
	}
	clients.runNode(t, urls[1], "gpu-1")
	waitUntil(t, "both instances to know the node", waitLimit, func() bool {
		var list wire.NodeList
		return apis[0].Get(t.Context(), "/v1/nodes", &list) == nil && len(list.Nodes) == 1
	})
	wantResult(t, clients.startSession(t, urls[0])) // its audio is fetched, and its speech uploaded, over https

	var instances wire.InstanceList
	retryWhileDown(t, func() error { return apis[0].Get(t.Context(), "/v1/instances", &instances) })
	for _, i := range instances.Instances {
		if i.AdvertiseURL != urls[0] && i.AdvertiseURL != urls[1] {
			t.Errorf("it advertises %s, not one of %v", i.AdvertiseURL, urls)
		}
	}
	waitUntil(t, "the ended job in the list of the other instance", waitLimit, func() bool {
		var jobs wire.JobList
		return apis[1].Get(t.Context(), "/v1/jobs", &jobs) == nil && len(jobs.Jobs) == 1 && jobs.Jobs[0].State == "DONE"
	})
}

// TestRefusedTLSConnectionDoesNotBlock: a connection beyond the limit of its address is closed before its handshake, for which no other
// connection waits.
func TestRefusedTLSConnectionDoesNotBlock(t *testing.T) {
	t.Parallel()
	a := tlstest.NewAuthority(t)
	cfg := secureConfig(a, a.NewPair(t))
	cfg.Server.PerAddress = 1
	address := strings.TrimPrefix(startScheduler(t, cfg), "http://")
	for range 2 { // the second is refused; none of them ever begins its handshake
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}, Timeout: waitLimit}
	c, err := tls.DialWithDialer(dialer, "tcp", address, newSecureClients(t, a).tls)
	if err != nil {
		t.Fatalf("another address has to wait: %v", err)
	}
	_ = c.Close()
}
