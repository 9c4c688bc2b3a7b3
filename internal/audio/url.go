package audio

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/lingua-scheduler/lingua/internal/auth"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/wire"
)

// Grant is what the token of an audio URL permits one node: to fetch the audio of one attempt of a job, or to upload its speech,
// while the attempt lasts.
type Grant struct {
	Job     core.JobID
	Attempt int
	Node    core.NodeID
	method  string // GET or PUT
	expires int64  // Unix seconds
}

// message is the text that is signed.
func (g *Grant) message() string {
	return fmt.Sprintf("audio %s %d %s %s %d", g.Job, g.Attempt, g.Node, g.method, g.expires)
}

// URLs makes and checks the signed URLs at which nodes of other instances, and HTTP nodes, fetch audio and upload speech.
type URLs struct{ Signer auth.Signer }

// Fetch is the URL of an assignment's audio at the instance with this base URL.
func (u URLs) Fetch(base string, a *wire.Assignment) string {
	return u.sign(base, a, http.MethodGet, "")
}

// Upload is the URL to which the speech of an assignment is uploaded.
func (u URLs) Upload(base string, a *wire.Assignment) string {
	return u.sign(base, a, http.MethodPut, "/tts")
}

// sign makes a URL with a token that expires with the attempt.
func (u URLs) sign(base string, a *wire.Assignment, method, path string) string {
	g := Grant{
		Job: core.JobID(a.JobID), Attempt: a.AttemptID, Node: core.NodeID(a.NodeID), method: method,
		expires: time.Now().Unix() + a.TimeoutMS/1000 + 1,
	}
	token := fmt.Sprintf("%d.%d.%s.%s", g.Attempt, g.expires, u.Signer.Sign(g.message()), g.Node)
	return fmt.Sprintf("%s/v1/audio/%s%s?token=%s", base, a.JobID, path, url.QueryEscape(token))
}

// Check reads the token of a request. It reports false when the token is not for this job and method, or has expired.
func (u URLs) Check(job core.JobID, method, token string) (Grant, bool) {
	parts := strings.SplitN(token, ".", 4) // the id of a node, which may have dots, is the last
	if len(parts) != 4 {
		return Grant{}, false
	}
	attempt, err1 := strconv.Atoi(parts[0])
	expires, err2 := strconv.ParseInt(parts[1], 10, 64)
	g := Grant{Job: job, Attempt: attempt, Node: core.NodeID(parts[3]), method: method, expires: expires}
	if err1 != nil || err2 != nil || !u.Signer.Verify(g.message(), parts[2]) || time.Now().Unix() > expires {
		return Grant{}, false
	}
	return g, true
}
