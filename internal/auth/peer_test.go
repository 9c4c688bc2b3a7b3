package auth_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/lingua-scheduler/lingua/internal/auth"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	oldSecret = "the-old-secret-of-at-least-32-characters"
	newSecret = "the-new-secret-of-at-least-32-characters"
	jobsURI   = "/v1/jobs?scope=here&limit=10"
)

var minter = &auth.Principal{Key: "acme-backend", Role: auth.Minter, Tenant: "acme"}

// verification is what an instance made of a request.
type verification struct {
	Caller *auth.Principal
	Reason auth.Reason
	header http.Header
}

// serve starts an instance that verifies every request, and answers what it made of it.
func serve(t *testing.T, secrets *auth.PeerSecrets) (address string, last func() verification) {
	t.Helper()
	verified := make(chan verification, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := verification{header: r.Header}
		v.Caller, v.Reason = secrets.Verify(r, "http://"+r.Host)
		verified <- v
		_ = json.NewEncoder(w).Encode(&v)
	}))
	t.Cleanup(srv.Close)
	return srv.URL, func() verification { return <-verified }
}

// ask asks an instance on behalf of the minter.
func ask(t *testing.T, secrets *auth.PeerSecrets, keyed bool, address string) error {
	t.Helper()
	return auth.NewPeerClient("i-1", secrets, nil, func() bool { return keyed }).Get(t.Context(), address, jobsURI, minter, new(verification))
}

func TestSignedRequest(t *testing.T) {
	t.Parallel()
	secrets := auth.NewPeerSecrets([]string{newSecret})
	address, last := serve(t, secrets)
	if err := ask(t, secrets, true, address); err != nil {
		t.Fatal(err)
	}
	v := last()
	if v.Reason != "" || v.Caller.Key != "peer:i-1" || v.Caller.Role != auth.Minter || v.Caller.Tenant != "acme" {
		t.Errorf("%+v, %s", v.Caller, v.Reason)
	}
	if v.header.Get("Authorization") != "" {
		t.Error("a credential was sent")
	}
}

// TestWithoutKeys: without keys nothing is signed; with keys and without a secret nothing is sent.
func TestWithoutKeys(t *testing.T) {
	t.Parallel()
	none := auth.NewPeerSecrets(nil)
	address, last := serve(t, none)
	if err := ask(t, none, false, address); err != nil {
		t.Error(err)
	}
	if signed := last().header.Get(auth.Header); signed != "" {
		t.Errorf("signed: %s", signed)
	}
	if auth.NewPeerClient("i-1", none, nil, func() bool { return true }).Enabled() || ask(t, none, true, address) == nil {
		t.Error("an unsigned request was sent, though there are keys")
	}
	if !auth.NewPeerClient("i-1", none, nil, func() bool { return false }).Enabled() {
		t.Error("without keys no secret is needed")
	}
}

// TestRotation: two instances understand each other if they have a secret in common, in whatever order.
func TestRotation(t *testing.T) {
	t.Parallel()
	steps := [][]string{{oldSecret}, {oldSecret, newSecret}, {newSecret, oldSecret}, {newSecret}}
	for from := range steps {
		for to := range steps {
			verifying := auth.NewPeerSecrets([]string{"some-other-secret-of-32-characters-or-so"})
			verifying.Replace(steps[to])
			address, last := serve(t, verifying)
			if err := ask(t, auth.NewPeerSecrets(steps[from]), true, address); err != nil {
				t.Fatal(err)
			}
			want := auth.Reason("")
			if from == 0 && to == 3 || from == 3 && to == 0 { // no secret in common
				want = auth.Unknown
			}
			if v := last(); v.Reason != want {
				t.Errorf("signed with %v, verified with %v: %q, want %q", steps[from], steps[to], v.Reason, want)
			}
		}
	}
}

// sign returns the header of a request to self for jobsURI.
func sign(t *testing.T, secret, self string) string {
	t.Helper()
	var header string
	client := auth.NewPeerClient("i-1", auth.NewPeerSecrets([]string{secret}), nil, func() bool { return true })
	auth.SetTransport(client, roundTripper(func(r *http.Request) (*http.Response, error) {
		header = r.Header.Get(auth.Header)
		return nil, context.Canceled
	}))
	_ = client.Get(t.Context(), self, jobsURI, minter, nil)
	return header
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// verifyAt verifies a request with these headers at an instance.
func verifyAt(t *testing.T, secrets *auth.PeerSecrets, self string, r *http.Request, headers ...string) auth.Reason {
	t.Helper()
	for _, h := range headers {
		r.Header.Add(auth.Header, h)
	}
	p, reason := secrets.Verify(r, self)
	if (p == nil) == (reason == "") {
		t.Errorf("%v, %q", p, reason)
	}
	return reason
}

// TestForgeries: only the request that was signed is accepted, at the instance that it is for, and only for a while.
func TestForgeries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const self = "http://10.0.0.1:5010"
		secrets := auth.NewPeerSecrets([]string{newSecret, oldSecret})
		header := sign(t, newSecret, self)
		part := strings.Split(header, ";")
		with := func(i int, value string) string {
			changed := append([]string(nil), part...)
			changed[i] = value
			return strings.Join(changed, ";")
		}
		at, err := strconv.ParseInt(part[2], 10, 64)
		if err != nil || len(part) != 6 {
			t.Fatal(header)
		}
		verify := func(method, uri, body string, headers ...string) auth.Reason {
			return verifyAt(t, secrets, self, httptest.NewRequestWithContext(t.Context(), method, uri, strings.NewReader(body)), headers...)
		}
		if reason := verify("GET", jobsURI, "", with(5, "A,"+part[5])); reason != "" {
			t.Errorf("a request with two signatures, of which one is valid, is refused: %s", reason)
		}
		if reason := verify("GET", jobsURI, "", header); reason != "" {
			t.Fatalf("the valid request is refused: %s", reason)
		}
		signature := part[5]
		for name, forged := range map[string]string{
			"an empty header": "", "no fields": ";;;;;", "another version": with(0, "v2"), "no version": with(0, ""),
			"another instance": with(1, "i-2"), "no instance": with(1, ""), "an instance that is no id": with(1, "i 1"),
			"another time": with(2, strconv.FormatInt(at+1, 10)), "no time": with(2, ""), "a time that is no number": with(2, "now"),
			"another form of the time": with(2, "+"+part[2]), "a time with a zero": with(2, "0"+part[2]), "a huge time": with(2, strings.Repeat("9", 30)),
			"another tenant": with(3, "beta"), "no tenant": with(3, ""), "a tenant that is no id": with(3, "a b"),
			"another role": with(4, "operator"), "no role": with(4, ""),
			"a wrong signature": with(5, strings.Repeat("A", len(signature))), "no signature": with(5, ""), "a shortened signature": with(5, signature[:10]),
			"a longer signature": with(5, signature+"A"), "a signature in another alphabet": with(5, strings.ToUpper(signature)),
			"a missing field": strings.Join(part[:5], ";"), "a further field": header + ";x", "fields that moved": strings.Join(append(part[1:], "v1"), ";"),
			"two tenants": with(3, "acme;acme"), "spaces": " " + header + " ", "another secret": sign(t, "a secret that nobody has configured", self),
			"another instance's address": sign(t, newSecret, "http://10.0.0.2:5010"), "an address with a path": sign(t, newSecret, self+"/"),
			"a megabyte": strings.Repeat("x", 1<<20), "a megabyte of fields": strings.Repeat(";", 1<<20), "a megabyte as signature": with(5, strings.Repeat("A", 1<<20)),
			"the key itself": with(5, newSecret), "two wrong signatures": with(5, "A,B"), "three signatures": with(5, "A,B,"+signature),
		} {
			if verify("GET", jobsURI, "", forged) == "" {
				t.Errorf("%s is accepted: %.200s", name, forged)
			}
		}
		for name, r := range map[string]struct{ method, uri, body string }{
			"another path":         {"GET", "/v1/nodes?scope=here&limit=10", ""},
			"another query":        {"GET", "/v1/jobs?scope=here&limit=1000", ""},
			"no query":             {"GET", "/v1/jobs", ""},
			"a further parameter":  {"GET", jobsURI + "&state=DONE", ""},
			"another order":        {"GET", "/v1/jobs?limit=10&scope=here", ""},
			"another encoding":     {"GET", "/v1/%6Aobs?scope=here&limit=10", ""},
			"a longer path":        {"GET", "/v1/../v1/jobs?scope=here&limit=10", ""},
			"another method":       {"POST", jobsURI, ""},
			"HEAD":                 {"HEAD", jobsURI, ""},
			"a method in lowers":   {"get", jobsURI, ""},
			"a body":               {"GET", jobsURI, "{}"},
			"another method, body": {"DELETE", jobsURI, "{}"},
		} {
			if verify(r.method, r.uri, r.body, header) == "" {
				t.Errorf("%s is accepted", name)
			}
		}
		if verify("GET", jobsURI, "") == "" || verify("GET", jobsURI, "", header, header) == "" {
			t.Error("no header, or two, are accepted")
		}
		time.Sleep(30 * time.Second)
		if reason := verify("GET", jobsURI, "", header); reason != "" {
			t.Errorf("after 30 s: %s", reason)
		}
		time.Sleep(time.Millisecond)
		if reason := verify("GET", jobsURI, "", header); reason != auth.Expired {
			t.Errorf("after more than 30 s: %q", reason)
		}
	})
}

// TestTimeInTheFuture: a request that is signed by a clock that is too far ahead is refused.
func TestTimeInTheFuture(t *testing.T) {
	t.Parallel()
	const self = "http://10.0.0.1:5010"
	secrets := auth.NewPeerSecrets([]string{newSecret})
	for ahead, want := range map[time.Duration]auth.Reason{29 * time.Second: "", 31 * time.Second: auth.NotYetValid, time.Hour: auth.NotYetValid} {
		fields := fmt.Sprintf("v1;i-1;%d;acme;minter", time.Now().Add(ahead).UnixMilli())
		r := httptest.NewRequestWithContext(t.Context(), "GET", jobsURI, http.NoBody)
		r.Header.Set(auth.Header, fields+";"+auth.SignFields(newSecret, fields, self, "GET", jobsURI))
		if _, reason := secrets.Verify(r, self); reason != want {
			t.Errorf("%v ahead: %q, want %q", ahead, reason, want)
		}
	}
}

// TestAnswers: an answer that is not a success is an error, and a redirect is not followed.
func TestAnswers(t *testing.T) {
	t.Parallel()
	var followed atomic.Bool
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/followed" {
			followed.Store(true)
			return
		}
		http.Redirect(w, r, "/followed", http.StatusFound)
	}))
	defer srv.Close()
	if err := ask(t, auth.NewPeerSecrets([]string{newSecret}), true, srv.URL); err == nil || followed.Load() {
		t.Errorf("%v, followed %v", err, followed.Load())
	}
}
