package server

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/wire"
)

// The sound of a session's job, for a node that is not connected here: it fetches what was said and brings what is to
// be said, each with a token that is for one attempt of one job, for one of the two, and for as long as the attempt.

// ticket is what such a token stands for.
type ticket struct {
	job     core.JobID
	attempt int
	verb    string // GET or PUT
	until   int64  // Unix seconds
}

// signer makes and checks tickets.
type signer []byte

func (k signer) sign(t ticket) string {
	mac := hmac.New(sha256.New, k)
	fmt.Fprintf(mac, "audio %s %d %s %d", t.job, t.attempt, t.verb, t.until)
	return fmt.Sprintf("%d.%d.%s", t.attempt, t.until, base64.RawURLEncoding.EncodeToString(mac.Sum(nil)))
}

// check reads a token that was made for a job, and reports false when it is not for that, or not any more.
func (k signer) check(job core.JobID, verb, token string) (ticket, bool) {
	parts := strings.SplitN(token, ".", 3)
	if len(parts) != 3 {
		return ticket{}, false
	}
	attempt, err1 := strconv.Atoi(parts[0])
	until, err2 := strconv.ParseInt(parts[1], 10, 64)
	t := ticket{job: job, attempt: attempt, verb: verb, until: until}
	if err1 != nil || err2 != nil || !hmac.Equal([]byte(token), []byte(k.sign(t))) || time.Now().Unix() > until {
		return ticket{}, false
	}
	return t, true
}

// audioURL is where a node fetches the sound of a job, or brings it.
func (k signer) audioURL(base string, a *wire.Assignment, verb, path string) string {
	t := ticket{job: core.JobID(a.JobID), attempt: a.AttemptID, verb: verb, until: time.Now().Unix() + a.TimeoutMS/1000 + 1}
	return base + "/v1/audio/" + a.JobID + path + "?token=" + k.sign(t)
}

// admitted checks the token of a request for a job's sound.
func (s *Server) admitted(r *http.Request) (ticket, *wire.Error) {
	id := r.PathValue("id")
	if e := checkID("id", id); e != nil {
		return ticket{}, e
	}
	t, ok := signer(s.Secret).check(core.JobID(id), r.Method, r.URL.Query().Get("token"))
	if !ok {
		return ticket{}, wire.Errorf(wire.Unauthorized, "the address is not valid, or not any more: use the one that came with the job")
	}
	return t, nil
}

// audio answers with what was said.
func (s *Server) audio(w http.ResponseWriter, r *http.Request) {
	t, e := s.admitted(r)
	if e != nil {
		s.fail(w, e)
		return
	}
	clip := s.Sessions.Sounds.Clip(t.job)
	if clip == nil {
		s.fail(w, wire.Errorf(wire.NotFound, "the sound of job %s is not here any more", t.job))
		return
	}
	file, err := clip.File(t.job)
	if err != nil {
		s.fail(w, err)
		return
	}
	h := w.Header()
	h.Set("Content-Type", clip.Format.ContentType())
	h.Set("Content-Length", strconv.Itoa(len(file)))
	h.Set("Cache-Control", "no-store")
	h.Set(wire.AudioHeader, clip.Format.Header())
	respond(w, file)
}
