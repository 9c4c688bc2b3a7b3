package audio_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingua-scheduler/lingua/internal/audio"
	"github.com/lingua-scheduler/lingua/internal/auth"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/wire"
)

var urls = audio.URLs{Signer: auth.Signer("a secret of all instances")}

// token is the path and the token of a URL.
func token(t *testing.T, raw string) (path, token string) {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return u.Path, u.Query().Get("token")
}

func TestURLsGrantOneAttempt(t *testing.T) {
	t.Parallel()
	a := &wire.Assignment{JobID: "job-1", AttemptID: 2, TimeoutMS: 5_000}
	for method, raw := range map[string]string{http.MethodGet: urls.Fetch("https://a", a), http.MethodPut: urls.Upload("https://a", a)} {
		path, token := token(t, raw)
		if want := map[string]string{http.MethodGet: "/v1/audio/job-1", http.MethodPut: "/v1/audio/job-1/tts"}[method]; path != want {
			t.Errorf("%s %s, want %s", method, path, want)
		}
		g, ok := urls.Check("job-1", method, token)
		if !ok || g.Job != "job-1" || g.Attempt != 2 {
			t.Errorf("%s is granted %+v, %v", method, g, ok)
		}
	}
}

func TestURLsRefuseOtherUses(t *testing.T) {
	t.Parallel()
	a := &wire.Assignment{JobID: "job-1", AttemptID: 2, TimeoutMS: 5_000}
	_, fetch := token(t, urls.Fetch("https://a", a))
	_, upload := token(t, urls.Upload("https://a", a))
	attempt, rest, _ := strings.Cut(fetch, ".")
	expires, signature, _ := strings.Cut(rest, ".")
	other := audio.URLs{Signer: auth.Signer("another secret")}
	_, foreign := token(t, other.Fetch("https://a", a))
	for name, c := range map[string]struct{ job, method, token string }{
		"another job":              {"job-2", http.MethodGet, fetch},
		"an upload with a fetch":   {"job-1", http.MethodPut, fetch},
		"a fetch with an upload":   {"job-1", http.MethodGet, upload},
		"another attempt":          {"job-1", http.MethodGet, "3." + expires + "." + signature},
		"a later expiry":           {"job-1", http.MethodGet, attempt + "." + expires + "0." + signature},
		"a tampered signature":     {"job-1", http.MethodGet, attempt + "." + expires + ".A" + signature[1:] + "A"},
		"no signature":             {"job-1", http.MethodGet, attempt + "." + expires + "."},
		"an attempt of no number":  {"job-1", http.MethodGet, "x." + expires + "." + signature},
		"an expiry of no number":   {"job-1", http.MethodGet, attempt + ".x." + signature},
		"two parts":                {"job-1", http.MethodGet, attempt + "." + expires},
		"nothing":                  {"job-1", http.MethodGet, ""},
		"a token of other secrets": {"job-1", http.MethodGet, foreign},
	} {
		if g, ok := urls.Check(core.JobID(c.job), c.method, c.token); ok {
			t.Errorf("%s is granted %+v", name, g)
		}
	}
}

func TestURLsExpireWithTheAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, token := token(t, urls.Fetch("https://a", &wire.Assignment{JobID: "job-1", AttemptID: 1, TimeoutMS: 5_000}))
		time.Sleep(5 * time.Second)
		if _, ok := urls.Check("job-1", http.MethodGet, token); !ok {
			t.Error("the token expired before the attempt")
		}
		time.Sleep(2 * time.Second)
		if _, ok := urls.Check("job-1", http.MethodGet, token); ok {
			t.Error("the token is valid after the attempt")
		}
	})
}
