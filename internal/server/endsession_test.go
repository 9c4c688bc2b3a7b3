package server_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/wire"
)

// TestEndSession: the session ends with a code of its own, its job is cancelled, its token is refused and it cannot be resumed. A token that
// is minted at once can start another session of the same name.
func TestEndSession(t *testing.T) {
	t.Parallel()
	ts := startSchedulerWithNamedKeys(t)
	n := ts.connectNodeAs(acmeGPU, "acme-1")
	token := ts.mint(acmeMint, "room-1")
	s := ts.dialAs("/ws/session", token, false)
	s.send(object{"type": "session_start", "langs": []string{"en", "es"}, "resume_token": "a resume token of the client"})
	s.readUntil("session_started")
	otherTenant, otherName := ts.startSessionAs(ts.mint(zetaMint, "room-1"), nil), ts.startSessionAs(ts.mint(acmeMint, "room-2"), nil)
	s.sendUtterance()
	job := n.readUntil("job_assign")["job_id"].(string)
	n.send(object{"type": "job_ack", "job_id": job, "attempt_id": 1})

	var list wire.SessionList
	ts.requestAs(acmeMint, "GET", "/v1/sessions", nil).decode(&list)
	if len(list.Sessions) != 2 || list.Sessions[0].SessionID != "room-1" || list.Sessions[0].Key != "acme-mint" || !list.Sessions[0].Connected || list.Sessions[0].Pending != 1 {
		t.Errorf("%+v", list)
	}
	var ended wire.SessionTerminated
	ts.requestAs(zetaMint, "DELETE", "/v1/sessions/room-1?tenant_id=acme", nil).expectError(wire.Forbidden)
	ts.requestAs(acmeMint, "DELETE", "/v1/sessions/room-1", nil).decode(&ended)
	if want := (wire.SessionTerminated{SessionID: "room-1", TenantID: "acme", Ended: true}); ended != want {
		t.Errorf("%+v, want %+v", ended, want)
	}
	for m := s.read(); ; m = s.read() {
		if m["fatal"] == true {
			if m["error"] != string(wire.SessionEndedCode) {
				t.Errorf("%v", m)
			}
			break
		}
	}
	if m := n.readUntil("job_cancel"); m["job_id"] != job {
		t.Errorf("%v", m)
	}
	ts.eventually("the job is cancelled", func() bool {
		var j wire.Job
		ts.requestAs(alice, "GET", "/v1/jobs/"+job, nil).decode(&j)
		return j.State == "CANCELLED"
	})
	expectNotUpgraded(ts, "/ws/session", token, wire.Unauthorized)
	next := ts.mint(acmeMint, "room-1")
	resumed := ts.dialAs("/ws/session", next, false)
	resumed.send(object{"type": "session_resume", "session_id": "room-1", "resume_token": "a resume token of the client", "last_seq": 0})
	resumed.expectClose(wire.NotFound, wire.CloseNotFound)
	ts.startSessionAs(next, nil).expectOpen("the next session of the name")
	otherTenant.expectOpen("a session of another tenant")
	otherName.expectOpen("another session of the tenant")

	ts.requestAs(acmeMint, "DELETE", "/v1/sessions/room-9", nil).decode(&ended)
	if ended.Ended {
		t.Errorf("a session that never was: %+v", ended)
	}
}

// TestEndingSessionsIsLimited: a key that ends sessions without a pause, also the same one, is soon refused; another key is not.
func TestEndingSessionsIsLimited(t *testing.T) {
	t.Parallel()
	ts := startSchedulerWithNamedKeys(t)
	began := time.Now()
	for ended := 0; ; ended++ {
		if ts.requestAs(acmeMint, "DELETE", "/v1/sessions/room-1", nil).status == 429 {
			break
		}
		if most := 200 + 21*(1+time.Since(began).Seconds()); float64(ended) > most {
			t.Fatalf("%d sessions were ended in %v", ended, time.Since(began))
		}
	}
	var ended wire.SessionTerminated
	ts.requestAs(zetaMint, "DELETE", "/v1/sessions/room-1", nil).decode(&ended)
}

// TestSessionsAreListedByTenant: each caller sees the sessions of its tenant, in pages.
func TestSessionsAreListedByTenant(t *testing.T) {
	t.Parallel()
	ts := startSchedulerWithNamedKeys(t)
	for i := range 3 {
		ts.startSessionAs(ts.mint(acmeMint, fmt.Sprintf("room-%d", i)), nil)
	}
	ts.startSessionAs(ts.mint(zetaMint, "room-0"), nil)
	list := func(key, query string) (names []string, next string) {
		t.Helper()
		var l wire.SessionList
		ts.requestAs(key, "GET", "/v1/sessions"+query, nil).decode(&l)
		for _, s := range l.Sessions {
			names = append(names, s.TenantID+"/"+s.SessionID)
		}
		return names, l.NextCursor
	}
	all := []string{"acme/room-0", "acme/room-1", "acme/room-2", "zeta/room-0"}
	for query, want := range map[[2]string][]string{
		{alice, ""}: all, {viewer, "?scope=here"}: all, {acmeMint, ""}: all[:3], {acmeView, ""}: all[:3], {zetaMint, ""}: all[3:],
		{alice, "?tenant_id=zeta"}: all[3:], {zetaMint, "?tenant_id=zeta"}: all[3:],
	} {
		if got, next := list(query[0], query[1]); !slices.Equal(got, want) || next != "" {
			t.Errorf("%s with %s: %v, next %q", query[1], query[0], got, next)
		}
	}
	first, next := list(alice, "?limit=3")
	second, end := list(alice, "?limit=3&cursor="+next)
	if got := append(first, second...); !slices.Equal(got, all) || end != "" {
		t.Errorf("in pages: %v", got)
	}
	ts.requestAs(zetaMint, "GET", "/v1/sessions?tenant_id=acme", nil).expectError(wire.Forbidden)
	ts.requestAs(acmeView, "DELETE", "/v1/sessions/room-0", nil).expectError(wire.Forbidden)
	ts.requestAs(alice, "GET", "/v1/sessions?nope=1", nil).expectError(wire.InvalidRequest)
	ts.requestAs(alice, "GET", "/v1/sessions?scope=there", nil).expectError(wire.InvalidRequest)
}

// TestRevocationIsAboutTheRenewedToken: a connected session that has sent another token is not closed by a revocation of the first one, and
// is by one of the other.
func TestRevocationIsAboutTheRenewedToken(t *testing.T) {
	t.Parallel()
	ts := startSchedulerWithNamedKeys(t)
	renewed, stale := ts.startSessionAs(ts.mint(acmeMint, "room-1"), nil), ts.startSessionAs(ts.mint(acmeMint, "room-2"), nil)
	time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second))) // tokens are dated in seconds
	between := time.Now().Truncate(time.Second)
	var next wire.SessionTokenResponse
	ts.requestAs(acmeMint, "POST", "/v1/sessions", object{"session_id": "room-1", "ttl_seconds": 7200}).decode(&next)
	renewed.send(object{"type": "session_update", "token": next.Token})
	ts.eventually("the token is renewed", func() bool {
		var log wire.AuditList
		ts.requestAs(alice, "GET", "/v1/audit?action=session.renew", nil).decode(&log)
		return len(log.Entries) == 1
	})
	ts.revoke(object{"kid": "session_secret", "before": between.Format(time.RFC3339)})
	stale.expectClose(wire.Unauthorized, wire.CloseUnauthorized)
	renewed.send(object{"type": "cancel", "utterance_id": "unknown"})
	if m := renewed.readUntil("error"); m["error"] != string(wire.NotFound) {
		t.Fatalf("the session with the later token: %v", m)
	}
	ts.revoke(object{"kid": "session_secret"})
	renewed.expectClose(wire.Unauthorized, wire.CloseUnauthorized)
}
