package scheduler_test

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/client"
	"github.com/lingua-scheduler/lingua/internal/auth"
	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/lab"
	"github.com/lingua-scheduler/lingua/node"
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
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	t.Cleanup(func() {
		stop()
		running.Wait()
	})
	running.Go(func() {
		err := node.Run(ctx, node.Config{
			URL: url, ID: id, Slots: 4, Log: discardLog, HTTPClient: c.http, ShutdownTimeout: time.Second,
			Declaration: wire.Declaration{SemanticLangs: []string{"en", "es"}, TTSLangs: []string{"en", "es"}},
		}, func(ctx context.Context, job *node.Job) (node.Result, error) {
			audio, err := job.Audio(ctx)
			if err != nil {
				return node.Result{}, err
			}
			return node.Result{TextSrc: strings.Repeat("x", len(audio)/3200), Speech: []byte("speech")}, nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// conversation is a session over wss that speaks one utterance after another.
type conversation struct {
	*client.Session
	t      *testing.T
	events chan client.Event
}

func (c *secureClients) startConversation(t *testing.T, url string) *conversation {
	t.Helper()
	s, err := client.Start(context.WithoutCancel(t.Context()), client.Config{
		URL: url, Log: discardLog, HTTPClient: c.http, Start: wire.SessionStart{Langs: []string{"en", "es"}, TTS: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	v := &conversation{Session: s, t: t, events: make(chan client.Event, 1000)}
	var reading sync.WaitGroup
	reading.Go(func() {
		defer close(v.events)
		for e, err := range s.Events() {
			if err != nil {
				return
			}
			v.events <- e
		}
	})
	t.Cleanup(func() {
		_ = s.Close()
		reading.Wait()
	})
	return v
}

// speak speaks an utterance and waits for its result, over the connection that is open.
func (v *conversation) speak() {
	v.t.Helper()
	if _, err := v.Write(tone(100)); err != nil {
		v.t.Fatal(err)
	}
	if err := v.Commit(); err != nil {
		v.t.Fatal(err)
	}
	for e := range v.events {
		switch e := e.(type) {
		case client.Result:
			if e.TextSrc != "x" {
				v.t.Errorf("the result is %q", e.TextSrc)
			}
			return
		case client.UtteranceFailed, client.Reconnecting:
			v.t.Fatalf("%T %+v", e, e)
		}
	}
	v.t.Fatal("the session has ended")
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
	v := clients.startConversation(t, "wss://"+address)
	v.speak()

	second := a.Renew(t, p, time.Hour)
	waitUntil(t, "the new certificate", waitLimit, func() bool { return clients.serial(t, address) == second })
	v.speak()
	clients.startConversation(t, "https://"+address).speak()

	if resp, err := http.Get("http://" + address + "/healthz"); err != nil || resp.StatusCode != http.StatusBadRequest {
		t.Errorf("without TLS: %v, %v", resp, err)
	} else {
		_ = resp.Body.Close()
	}
	if _, err := client.Start(t.Context(), client.Config{URL: "wss://" + address, Log: discardLog, Start: wire.SessionStart{Langs: []string{"en", "es"}}}); err == nil {
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
	clients.startConversation(t, urls[0]).speak() // its audio is fetched, and its speech uploaded, over https

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
