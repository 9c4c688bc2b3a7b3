package server

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/lingua-scheduler/lingua/internal/convert"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/session"
	"github.com/lingua-scheduler/lingua/internal/telemetry"
	"github.com/lingua-scheduler/lingua/wire"
)

// sessionFilter selects sessions. Zero fields select all.
type sessionFilter struct {
	tenant    *core.TenantID
	search    string
	lang      core.Lang
	connected *bool
	instance  string
}

// readFilter reads the filters of a request for a list of sessions.
func (h *sessionHandlers) readFilter(r *http.Request, q url.Values) (f sessionFilter, e *wire.Error) {
	f = sessionFilter{tenant: visibleTenant(r.Context()), search: q.Get("search"), instance: q.Get("instance")}
	if named := q.Get("tenant_id"); named != "" {
		t, e := tenantOf(r.Context(), named)
		if e != nil {
			return f, e
		}
		f.tenant = &t
	}
	if e := convert.CheckOptionalID("search", f.search); e != nil {
		return f, e
	}
	if e := convert.CheckOptionalID("instance", f.instance); e != nil {
		return f, e
	}
	if f.lang, e = h.read.OptionalLang("language", q.Get("language")); e != nil {
		return f, e
	}
	if text := q.Get("connected"); text != "" {
		connected, err := strconv.ParseBool(text)
		if err != nil || text != strconv.FormatBool(connected) {
			return f, wire.Invalid("connected", "must be true or false, or absent")
		}
		f.connected = &connected
	}
	return f, nil
}

// matches reports whether a session of this instance is selected.
func (f *sessionFilter) matches(s *session.Info) bool {
	return (f.tenant == nil || *f.tenant == s.Tenant) && strings.Contains(string(s.Name), f.search) &&
		(f.lang == "" || slices.Contains(s.Langs[:], f.lang)) && (f.connected == nil || *f.connected == s.Connected)
}

// viewSession is a session as the API shows it.
func viewSession(s *session.Info, instance string) wire.SessionInfo {
	a := &s.Activity
	v := wire.SessionInfo{
		SessionID: string(s.Name), TenantID: string(s.Tenant), Instance: instance, Langs: []string{string(s.Langs[0]), string(s.Langs[1])},
		StartedMS: s.Started.UnixMilli(), Connected: s.Connected, Utterances: s.Utterances, Pending: s.Pending,
		Remote: a.Remote, Reconnects: a.Reconnects, Speaking: a.Speaking, LastActiveMS: a.LastActive.UnixMilli(),
	}
	if s.Caller != nil {
		v.Key = s.Caller.Key
	}
	if a.Results > 0 {
		last, p95 := a.LastLag.Total().Milliseconds(), a.LagP95.Milliseconds()
		v.LastResultLagMS, v.LagP95MS, v.LagStagesMS = &last, &p95, viewLag(&a.LastLag)
	}
	return v
}

func viewLag(l *telemetry.Lag) *wire.SessionLag {
	return &wire.SessionLag{
		SegmentationMS: l.Segmentation.Milliseconds(), WaitMS: l.Wait.Milliseconds(), DispatchMS: l.Dispatch.Milliseconds(),
		NodeMS: l.Node.Milliseconds(), ReturnMS: l.Return.Milliseconds(),
	}
}
