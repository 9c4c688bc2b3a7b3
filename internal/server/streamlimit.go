package server

import (
	"context"

	"github.com/lingua-scheduler/lingua/internal/auth"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/wire"
)

// streamLimit bounds the streams of one kind that an instance has. Callers of one tenant cannot take them from the others, and all who are
// not operators leave some to operators.
type streamLimit struct {
	max  int
	what string // for messages, in the plural

	mu       run.Mutex // guards the rest
	open     int
	byTenant map[string]int // streams of callers that see one tenant, by its id
}

func newStreamLimit(limit int, what string) *streamLimit {
	return &streamLimit{max: limit, what: what, mu: run.NewMutex("server_streams"), byTenant: make(map[string]int)}
}

// begin admits a stream of the caller. The function ends it.
func (l *streamLimit) begin(ctx context.Context) (end func(), e *wire.Error) {
	p := principalOf(ctx)
	total, ofTenant := l.max, l.max
	if p.Role != auth.Operator {
		total = l.max * 3 / 4
	}
	tenant := ""
	if !p.AllTenants() {
		tenant, ofTenant = string(p.Tenant), l.max/8
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.open >= total:
		return nil, wire.Errorf(wire.RateLimited,
			"this instance has %d %s, and you may not open another: close one, or try another instance", l.open, l.what).RetryIn(streamPing)
	case tenant != "" && l.byTenant[tenant] >= ofTenant:
		return nil, wire.Errorf(wire.RateLimited, "this instance has %d %s of your tenant, its maximum: close one, or try another instance",
			ofTenant, l.what).RetryIn(streamPing)
	}
	l.open++
	if tenant != "" {
		l.byTenant[tenant]++
	}
	return func() { l.end(tenant) }, nil
}

func (l *streamLimit) end(tenant string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	if tenant == "" {
		return
	}
	if l.byTenant[tenant]--; l.byTenant[tenant] == 0 {
		delete(l.byTenant, tenant)
	}
}
