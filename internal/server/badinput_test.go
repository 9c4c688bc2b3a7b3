package server_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/wire"
)

// bad is one thing that somebody sends by mistake or on purpose, and what it must be answered with.
type bad struct {
	name        string
	method      string // POST unless given
	path        string
	host        string
	contentType string // application/json unless given; "none" for none
	body        any    // an object, or text as it is
	code        wire.Code
	field       string // named in field and in the sentence; anyField: whichever
	says        string // must stand in the sentence
}

const anyField = "*"

// stage is a scheduler with something to lose: a job in flight on n1, one that is done, and n2 beside them.
type stage struct {
	*world
	n1, n2        *node
	held, ended   delivery
	before        state
	heardNotAfter map[string]time.Time
}

// state is everything that anybody can see of nodes and jobs.
type state struct {
	Nodes wire.NodeList
	Jobs  wire.JobList
}

func newStage(t *testing.T) *stage {
	t.Helper()
	w := newWorld(t, func(c *config.Config) { // its job stays in flight however long the table is
		c.Scheduler.Dispatch.AttemptTimeoutMS, c.Scheduler.Dispatch.JobTimeoutMS = 600_000, 1_200_000
	})
	services := obj{"installed_services": []obj{{"service_id": "s", "status": "ready"}}}
	s := &stage{world: w, n1: w.node("n1", services), n2: w.node("n2", services)}
	on := func(id string) delivery {
		d, _ := w.begin(utterance(obj{"request_id": "req-" + id, "options": obj{"preferred_node_id": id}}))
		return d
	}
	s.ended = on("n2")
	s.n2.done(s.ended, obj{"result": obj{"text_tgt": "好"}}).ok()
	s.held = on("n1")
	s.n1.ack(s.held, nil).ok()
	w.eventually("the slot of the ended job is free", func() bool { return w.status("n2").EffectiveLoad == 0 })
	s.before = s.look()
	_, s.heardNotAfter = s.heard()
	return s
}

// look asks past the check of the answers' form, which other tests do: here it is done after every row.
func (s *stage) look() state {
	s.t.Helper()
	var now state
	for path, into := range map[string]any{"/v1/nodes": &now.Nodes, "/v1/jobs": &now.Jobs} {
		rec := httptest.NewRecorder()
		s.s.Server.Handler().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, s.url+path, nil))
		if err := json.Unmarshal(rec.Body.Bytes(), into); err != nil || rec.Code != http.StatusOK {
			s.t.Fatalf("GET %s: %d %s", path, rec.Code, rec.Body)
		}
	}
	return now
}

// heard says when each node was last heard, as closely as it can be known from outside the store: not before
// the one moment and not after the other.
func (s *stage) heard() (notBefore, notAfter map[string]time.Time) {
	s.t.Helper()
	notBefore, notAfter = make(map[string]time.Time), make(map[string]time.Time)
	early := time.Now()
	sightings, err := s.s.Store.LastSeen(s.t.Context())
	late := time.Now()
	if err != nil {
		s.t.Fatal(err)
	}
	for _, n := range sightings {
		notBefore[string(n.Node)], notAfter[string(n.Node)] = early.Add(-n.Age), late.Add(-n.Age)
	}
	return notBefore, notAfter
}

// clockSlack is how far two readings of one moment may be apart: Redis tells the time in whole milliseconds.
func clockSlack() time.Duration {
	if *redisURL == "" {
		return 0
	}
	return 2 * time.Millisecond
}

// unchanged wants everything to be as it was, down to when the nodes were last heard.
func (s *stage) unchanged(t *testing.T) {
	t.Helper()
	if diff := cmp.Diff(s.before, s.look(), cmpopts.IgnoreFields(wire.Node{}, "LastHeartbeatMS")); diff != "" {
		t.Errorf("it changed something: (-before +after)\n%s", diff)
	}
	notBefore, _ := s.heard()
	for id, at := range notBefore {
		if at.After(s.heardNotAfter[id].Add(clockSlack())) {
			t.Errorf("it counted as a sign of life of %s", id)
		}
	}
	s.nothing()
}

// send sends one of them.
func (s *stage) send(t *testing.T, b *bad) answer {
	t.Helper()
	var body []byte
	switch given := b.body.(type) {
	case nil:
	case string:
		body = []byte(given)
	default:
		body = encode(t, given)
	}
	method := b.method
	if method == "" {
		method = http.MethodPost
	}
	req, err := http.NewRequest(method, s.url+b.path, strings.NewReader(string(body)))
	if err != nil {
		t.Fatal(err)
	}
	switch b.contentType {
	case "":
		if body != nil {
			req.Header.Set("Content-Type", "application/json")
		}
	case "none":
	default:
		req.Header.Set("Content-Type", b.contentType)
	}
	if b.host != "" {
		req.Host = b.host
	}
	a := s.do(req)
	a.t = t
	return a
}

// TestBadInput sends everything in the table. Each gets its own code and a sentence that names the field, and
// nothing changes.
func TestBadInput(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	table := slices.Concat(
		badForm(s), badRegistrations(), badHeartbeats(s), badDispatches(), badReports(s), badModelReports(s), badPaths(), badQueries(), badHosts(s),
	)
	for i := range table {
		b := &table[i]
		t.Run(b.name, func(t *testing.T) {
			a := s.send(t, b)
			e := a.refused(b.code)
			if b.field != anyField {
				if e.Field != b.field {
					t.Errorf("want field %q, got %q: %s", b.field, e.Field, e.Detail)
				}
				if !strings.Contains(e.Detail, b.field) {
					t.Errorf("the sentence does not name %s: %q", b.field, e.Detail)
				}
			}
			if !strings.Contains(e.Detail, b.says) {
				t.Errorf("the sentence does not say %q: %q", b.says, e.Detail)
			}
			if got := a.header.Get("Content-Type"); got != "application/json" {
				t.Errorf("content type %q", got)
			}
			s.unchanged(t)
		})
	}
	if s.t.Failed() {
		return
	}
	// After all that, the job in flight ends as if nothing had happened.
	s.n1.done(s.held, nil).ok()
}

// TestWrongMethod asks every path with every method it does not have.
func TestWrongMethod(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	allowed := make(map[string][]string)
	for _, door := range s.s.Server.Routes() {
		method, path, _ := strings.Cut(door, " ")
		allowed[path] = append(allowed[path], method)
	}
	allowed[metrics] = []string{"GET"} // which is there whether or not the table has it
	for pattern, has := range allowed {
		path := strings.ReplaceAll(pattern, "{id}", "n1")
		for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"} {
			if slices.Contains(has, method) {
				continue
			}
			a := s.ask(method, path, "application/json", []byte(`{}`))
			e := a.refused(wire.MethodNotAllowed)
			if diff := cmp.Diff(has, a.header.Values("Allow")); diff != "" {
				t.Errorf("%s %s: Allow: (-want +got)\n%s", method, path, diff)
			}
			for _, right := range has {
				if !strings.Contains(e.Detail, right) {
					t.Errorf("%s %s: the sentence does not name %s: %q", method, path, right, e.Detail)
				}
			}
		}
	}
	s.unchanged(t)
}
