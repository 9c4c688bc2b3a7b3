package endpoints_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/endpoints"
)

func TestSocketURL(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"http://h:1":            "ws://h:1/ws/node",
		"http://h:1/":           "ws://h:1/ws/node",
		"https://h/lingua":      "wss://h/lingua/ws/node",
		"https://h/a/ws/node":   "wss://h/a/ws/node",
		"ws://h:1":              "ws://h:1/ws/node",
		"ws://h:1/":             "ws://h:1/ws/node",
		"ws://h:1/ws/node":      "ws://h:1/ws/node",
		"wss://h/some/where":    "wss://h/some/where",
		"http://[::1]:5010/?a=": "ws://[::1]:5010/ws/node?a=",
	} {
		if got, err := endpoints.SocketURL(address, "/ws/node"); err != nil || got.String() != want {
			t.Errorf("%s gives %s (%v), want %s", address, got, err, want)
		}
	}
}

func TestInvalidAddresses(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"":                           "must be the address",
		"127.0.0.1:5010":             "must be the address",
		"http://":                    "must be the address",
		"http://user:secret@host":    "Config.Token",
		"ftp://host":                 "must begin with",
		"http://host/%zz?sig=secret": "must be the address",
	} {
		_, err := endpoints.New([]string{address}, "/ws/node")
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v, want an error about %q", address, err, want)
		}
	}
	if _, err := endpoints.New(nil, "/ws/node"); err == nil {
		t.Error("a rotation without addresses was made")
	}
}

func TestHTTPBase(t *testing.T) {
	t.Parallel()
	for socket, want := range map[string]string{"ws://h:1/ws/node": "http://h:1/ws/node", "wss://h/ws/node": "https://h/ws/node"} {
		u, err := endpoints.SocketURL(socket, "/ws/node")
		if err != nil {
			t.Fatal(err)
		}
		if got := endpoints.HTTPBase(u).String(); got != want {
			t.Errorf("%s: %s, want %s", socket, got, want)
		}
	}
}

func newRotation(t *testing.T, addresses ...string) *endpoints.Rotation {
	t.Helper()
	r, err := endpoints.New(addresses, "/ws/node")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestNextVisitsEveryEndpoint(t *testing.T) {
	t.Parallel()
	r := newRotation(t, "http://a", "http://b", "http://c")
	visited := make(map[string]int)
	for range 2 * r.Len() {
		visited[r.Current().Host]++
		r.Next()
	}
	if diff := cmp.Diff(map[string]int{"a": 2, "b": 2, "c": 2}, visited); diff != "" {
		t.Errorf("visits (-want +got):\n%s", diff)
	}
}

func TestFirstEndpointIsRandom(t *testing.T) {
	t.Parallel()
	first := make(map[string]bool)
	for range 200 {
		first[newRotation(t, "http://a", "http://b", "http://c").Current().Host] = true
	}
	if len(first) != 3 {
		t.Errorf("200 rotations began at %v only", first)
	}
}

func TestRounds(t *testing.T) {
	t.Parallel()
	r := newRotation(t, "http://a", "http://b", "http://c")
	want, got := []int{0, 0, 0, 1, 1, 1, 2}, []int(nil)
	for n := range want {
		got = append(got, r.Round(n))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rounds over three endpoints (-want +got):\n%s", diff)
	}
}

func TestAvoidHoldsForOneEndpoint(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRotation(t, "http://a", "http://b")
		r.Avoid(time.Minute)
		if got := r.AvoidFor(); got != time.Minute {
			t.Errorf("avoid for %v, want a minute", got)
		}
		if r.Next(); r.AvoidFor() > 0 {
			t.Error("the other endpoint is avoided too")
		}
		if r.Next(); r.AvoidFor() != time.Minute {
			t.Errorf("after a round: %v, want a minute", r.AvoidFor())
		}
	})
}
