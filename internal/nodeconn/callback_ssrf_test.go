package nodeconn_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/nodeconn"
)

// countingService listens on an address that nodes may not use, and counts connections.
func countingService(t *testing.T, address string) (port string, connects *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	connects = new(atomic.Int64)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			connects.Add(1)
			_ = c.Close()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	_, port, _ = net.SplitHostPort(l.Addr().String())
	return port, connects
}

// startResolver answers every question for an IPv4 address with what answer returns, and has no other records.
func startResolver(t *testing.T, answer func() []netip.Addr) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		query := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(query)
			if err != nil {
				return
			}
			_, _ = conn.WriteTo(dnsReply(query[:n], answer), from)
		}
	}()
	t.Cleanup(func() {
		_ = conn.Close()
		<-done
	})
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

// dnsReply is the reply to a query with one question (RFC 1035).
func dnsReply(query []byte, answer func() []netip.Addr) []byte {
	end := 12
	for query[end] != 0 {
		end += 1 + int(query[end])
	}
	end += 5 // the end of the name, the type and the class
	reply := append([]byte(nil), query[:end]...)
	var found []netip.Addr
	if binary.BigEndian.Uint16(query[end-4:]) == 1 {
		found = answer()
	}
	binary.BigEndian.PutUint16(reply[2:], 0x8180) // an answer, with recursion
	binary.BigEndian.PutUint16(reply[6:], uint16(len(found)))
	binary.BigEndian.PutUint16(reply[8:], 0)
	binary.BigEndian.PutUint16(reply[10:], 0)
	for _, a := range found {
		ip := a.As4()
		reply = append(reply, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4) // the name of the question, A, IN, no caching, 4 bytes
		reply = append(reply, ip[:]...)
	}
	return reply
}

// TestRebindingResolver: a name that resolves to an allowed address when it is checked and to a forbidden one when it is used leads
// nowhere. Nodes may be at 127.0.0.2 here; at 127.0.0.1 there is a service that they may not reach.
func TestRebindingResolver(t *testing.T) {
	t.Parallel()
	port, connects := countingService(t, "127.0.0.1:0")
	allowed, forbidden := netip.MustParseAddr("127.0.0.2"), netip.MustParseAddr("127.0.0.1")
	answers := [][]netip.Addr{{allowed}, {forbidden}, {allowed, forbidden}, {forbidden, allowed}}
	var asked atomic.Int64
	c := newCaller(t, nodeconn.CallbackConfig{
		Allowed:  []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")},
		Resolver: startResolver(t, func() []netip.Addr { return answers[int(asked.Add(1))%len(answers)] }),
	})
	const deliveries = 200
	for i := 0; asked.Load() < deliveries && !t.Failed(); i++ { // on a busy machine a question may be lost
		url := fmt.Sprintf("http://node-%d.rebind.example:%s/jobs", i, port)
		if err := c.Check(url); err != nil {
			t.Fatal(err)
		}
		if err := deliver(t, c, url); err == nil {
			t.Error("a job was delivered")
		}
	}
	t.Logf("%d questions, %d connections to a forbidden address", asked.Load(), connects.Load())
	if connects.Load() != 0 {
		t.Error("a forbidden address was connected to")
	}
}

// TestForbiddenTargets: no notation of a forbidden address, and no redirect to it, makes a connection.
func TestForbiddenTargets(t *testing.T) {
	t.Parallel()
	port, connects := countingService(t, "127.0.0.1:0")
	redirect := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://127.0.0.1:"+port+"/latest/meta-data", http.StatusTemporaryRedirect)
	}))
	l, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = redirect.Listener.Close()
	redirect.Listener = l
	redirect.Start()
	t.Cleanup(redirect.Close)
	c := newCaller(t, nodeconn.CallbackConfig{Allowed: []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}})
	hosts := []string{
		"127.0.0.1", "127.1", "127.0.1", "0", "0.0.0.0", "2130706433", "0x7f000001", "0x7f.0.0.1", "0177.0.0.1", "017700000001", "127.0.0.1.",
		"127.000.000.001", "localhost", "localhost.", "LOCALHOST", "[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:ffff:127.0.0.1]",
		"[::127.0.0.1]", "[64:ff9b::127.0.0.1]", "[fe80::1%25lo]", "[::1%25lo]", "127.0.0.1%00", "127.0.0.1%2f", "①②⑦.⓪.⓪.①", "127。0。0。1",
		"169.254.169.254", "[fd00:ec2::254]", "10.0.0.1", "192.168.0.1", "172.16.0.1", "100.64.0.1", "224.0.0.1", "255.255.255.255",
	}
	var urls []string
	for _, host := range hosts {
		urls = append(urls, "http://"+host+":"+port+"/jobs")
	}
	urls = append(urls,
		redirect.URL+"/jobs", "http://127.0.0.2@127.0.0.1:"+port+"/", "http://127.0.0.1:"+port+"@127.0.0.2/", "http://127.0.0.1:"+port+"\\@127.0.0.2/",
		"http://127.0.0.2:"+port+"#@127.0.0.1:"+port+"/", "//127.0.0.1:"+port+"/", "HTTP://127.0.0.1:"+port+"/", "https://127.0.0.1:"+port+"/",
		"file:///etc/passwd", "gopher://127.0.0.1:"+port+"/_x", "ftp://127.0.0.1:"+port+"/", "unix:///run/docker.sock", "http:127.0.0.1:"+port,
		"http:///127.0.0.1:"+port+"/", " http://127.0.0.1:"+port+"/", "http://127.0.0.1:"+port+"/\r\nHost: x", "data:text/plain,x", "javascript:x", "",
	)
	for _, url := range urls {
		n := &core.Node{ID: "n1", Declaration: core.Declaration{Callback: url}}
		ctx, cancel := context.WithCancel(t.Context())
		if strings.Contains(url, "254") || strings.Contains(url, "//10.") || strings.Contains(url, "192.168") {
			cancel() // nothing is sent to the network if the check should fail
		}
		if err := c.Deliver(ctx, n, job); err == nil && url != redirect.URL+"/jobs" {
			t.Errorf("%q: delivered", url)
		}
		cancel()
	}
	if connects.Load() != 0 {
		t.Errorf("%d connections to a forbidden address", connects.Load())
	}
	t.Logf("%d targets, %d connections", len(urls), connects.Load())
}
