//go:build !race

package redisstore_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/fairqueue"
	"github.com/lingua-scheduler/lingua/internal/store/redisstore"
	"github.com/lingua-scheduler/lingua/test/redistest"
)

var malformedFields = flag.Bool("malformed-fields", false, "malform every stored field by itself, instead of all of a key at once")

// sample is the name of everything that the calls of a malformed store are about.
const sample = "sample"

// sampleValues are values of every kind.
var sampleValues = []store.ValueKey{
	{Kind: store.CountsValue, Name: sample}, {Kind: store.SnapshotValue}, {Kind: store.HistoryValue}, {Kind: store.SettingValue, Name: sample},
	{Kind: store.LastNodeValue, Name: redisstore.SessionNamed(sample).SessionKey.String()},
}

// storeCall is a call of a store. Together they read and write a key of every family, and can be repeated.
type storeCall struct {
	name string
	call func(ctx context.Context, s *redisstore.Store) error
}

// storeCalls are all calls of a store, about one sample of everything.
func storeCalls() []storeCall {
	session := redisstore.SessionNamed(sample)
	node := core.Node{
		ID: sample, Declaration: core.Declaration{Health: core.HealthReady, MaxJobs: 4, Tenant: "acme", SecretHash: "hash",
			Capability: core.Capability{Semantic: core.NewLangSet("en", "zh"), AnyPair: true}},
	}
	lease := core.LeaseRef{Node: sample, Job: sample, Attempt: 1, Token: "token"}
	waiter := fairqueue.Waiter{ID: sample, Class: "class", Tenant: sample, Instance: sample, Since: time.Now().UnixMilli(), Deadline: time.Now().Add(time.Minute).UnixMilli()}
	member := store.MemberParams{Tenant: sample, Kind: store.TenantJob, Member: sample, Keep: time.Minute, Limits: core.TenantLimits{InFlight: 10, DispatchRate: 1000}}
	sessions := member
	sessions.Kind = store.TenantSession
	revocation := store.Revocation{RevocationTarget: store.RevocationTarget{Kind: store.RevokedKey, Name: sample}, Before: time.Now()}
	known := node
	var dead string
	return []storeCall{
		{"CheckIncarnation", func(ctx context.Context, s *redisstore.Store) error { return s.CheckIncarnation(ctx) }},
		{"Ping", func(ctx context.Context, s *redisstore.Store) error { return s.Ping(ctx) }},
		{"Heartbeat", func(ctx context.Context, s *redisstore.Store) error {
			r, err := s.Heartbeat(ctx, store.HeartbeatParams{Node: sample, Known: &known, Load: core.UnknownLoad, Activity: store.Activity{Lists: true}})
			if err == nil && r.Verdict == store.OK {
				return nil
			}
			registered, err := s.Register(ctx, store.RegisterParams{Node: node, Load: core.UnknownLoad})
			if err == nil {
				known = *registered.Node
			}
			return err
		}},
		{"Reserve", func(ctx context.Context, s *redisstore.Store) error {
			return errOf(s.Reserve(ctx, store.ReserveParams{Lease: lease, Epoch: known.Epoch, Revision: known.Revision}))
		}},
		{"Reserve for a probe", func(ctx context.Context, s *redisstore.Store) error {
			return errOf(s.Reserve(ctx, store.ReserveParams{Lease: lease, Epoch: known.Epoch, Revision: known.Revision, Probe: true}))
		}},
		{"Commit", func(ctx context.Context, s *redisstore.Store) error { return errOf(s.Commit(ctx, lease)) }},
		{"Leases", func(ctx context.Context, s *redisstore.Store) error { return errOf(s.Leases(ctx, lease)) }},
		{"Orphans", func(ctx context.Context, s *redisstore.Store) error { return errOf(s.Orphans(ctx, sample)) }},
		{"Probe", func(ctx context.Context, s *redisstore.Store) error {
			return s.Probe(ctx, []core.NodeID{sample}, make([]store.Occupancy, 1))
		}},
		{"Admit", func(ctx context.Context, s *redisstore.Store) error {
			_, _, err := s.Admit(ctx, store.AdmitParams{Node: sample, Fence: 1, Admission: core.Admission{Limited: true, Slots: 2, Reason: core.AdmissionFailing}, For: time.Minute})
			return err
		}},
		{"Drain", func(ctx context.Context, s *redisstore.Store) error {
			return errOf(s.Drain(ctx, store.DrainParams{Node: sample}))
		}},
		{"Connect", func(ctx context.Context, s *redisstore.Store) error {
			return errOf(s.Connect(ctx, store.ConnectParams{Node: sample, Epoch: known.Epoch, Connection: 1}))
		}},
		{"Mark", func(ctx context.Context, s *redisstore.Store) error {
			return s.Mark(ctx, store.Mark{Node: sample, Service: "asr", Epoch: known.Epoch, NodeVersion: 1, For: time.Minute})
		}},
		{"Marked", func(ctx context.Context, s *redisstore.Store) error { return errOf(s.Marked(ctx, sample)) }},
		{"Node", func(ctx context.Context, s *redisstore.Store) error { return errOf(store.ReadNode(ctx, s, sample)) }},
		{"Nodes", func(ctx context.Context, s *redisstore.Store) error { return errOf(s.Nodes(ctx)) }},
		{"Overdue of all", func(ctx context.Context, s *redisstore.Store) error { return errOf(s.Overdue(ctx, 0)) }},
		{"Overdue", func(ctx context.Context, s *redisstore.Store) error { return errOf(s.Overdue(ctx, time.Second)) }},
		{"Digests", func(ctx context.Context, s *redisstore.Store) error { return errOf(s.Digests(ctx)) }},
		{"Watch", func(ctx context.Context, s *redisstore.Store) error {
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			if err := s.Watch(ctx, cancel, func(store.Change) {}); !errors.Is(err, context.Canceled) {
				return err
			}
			return nil
		}},
		{"Create", func(ctx context.Context, s *redisstore.Store) error {
			_, _, err := s.Create(ctx, store.CreateParams{ID: sample, Holder: core.Holder{Attempt: 1, Node: sample, Epoch: 1}, Token: "token", Timeout: time.Minute})
			return err
		}},
		{"Apply", func(ctx context.Context, s *redisstore.Store) error {
			return errOf(s.Apply(ctx, store.ApplyParams{Job: sample, AnyHolder: true, Event: core.EventRetry, Reason: core.ReasonNodeLost, Owner: "o", RetryFor: time.Minute}))
		}},
		{"Get", func(ctx context.Context, s *redisstore.Store) error { return errOf(s.Get(ctx, sample)) }},
		{"List", func(ctx context.Context, s *redisstore.Store) error { return errOf(s.List(ctx, store.ListParams{})) }},
		{"SaveSession", func(ctx context.Context, s *redisstore.Store) error {
			return errOf(s.SaveSession(ctx, store.SaveParams{Session: session, Ownership: store.Ownership{Owner: sample, Epoch: 1}, TakeOver: true, Body: []byte("body"), Keep: time.Minute}))
		}},
		{"LoadSession", func(ctx context.Context, s *redisstore.Store) error {
			return errOf(s.LoadSession(ctx, session.SessionKey))
		}},
		{"Append", func(ctx context.Context, s *redisstore.Store) error {
			p := store.AppendParams{Session: session, Index: 5, Body: []byte("later"), Keep: time.Minute}
			err := errOf(s.Append(ctx, p))
			p.Index = 0
			return errors.Join(err, errOf(s.Append(ctx, p)))
		}},
		{"Read", func(ctx context.Context, s *redisstore.Store) error {
			return errOf(s.Read(ctx, store.ReadParams{Session: session}))
		}},
		{"Waiting", func(ctx context.Context, s *redisstore.Store) error { return errOf(s.Waiting(ctx, session)) }},
		{"AppendLog", func(ctx context.Context, s *redisstore.Store) error {
			return errors.Join(s.AppendLog(ctx, store.EventLog, [][]byte{[]byte("{}")}), s.AppendLog(ctx, store.AuditLog, [][]byte{[]byte("{}")}))
		}},
		{"ReadLog", func(ctx context.Context, s *redisstore.Store) error {
			return errors.Join(errOf(s.ReadLog(ctx, store.EventLog, store.ReadLogParams{After: "0-1", Limit: 9})),
				errOf(s.ReadLog(ctx, store.AuditLog, store.ReadLogParams{Limit: 9})))
		}},
		{"PutRevocations", func(ctx context.Context, s *redisstore.Store) error {
			return errOf(s.PutRevocations(ctx, store.PutRevocationsParams{Entries: []store.Revocation{revocation}, Keep: time.Hour}))
		}},
		{"ReadRevocations", func(ctx context.Context, s *redisstore.Store) error {
			return errors.Join(errOf(s.ReadRevocations(ctx, time.Time{}, nil)), errOf(s.ReadRevocations(ctx, time.Time{}, new(string))))
		}},
		{"Announce", func(ctx context.Context, s *redisstore.Store) error {
			return s.Announce(ctx, store.AnnounceParams{ID: sample, Body: []byte("{}"), TTL: time.Minute})
		}},
		{"Instances", func(ctx context.Context, s *redisstore.Store) error {
			return errOf(s.Instances(ctx, store.InstancesParams{Inboxes: true}))
		}},
		{"Presences", func(ctx context.Context, s *redisstore.Store) error {
			return errOf(s.Instances(ctx, store.InstancesParams{}))
		}},
		{"Silent instances", func(ctx context.Context, s *redisstore.Store) error {
			return errOf(s.Instances(ctx, store.InstancesParams{SilentFor: time.Second}))
		}},
		{"Post", func(ctx context.Context, s *redisstore.Store) error {
			return errOf(s.Post(ctx, store.PostParams{To: sample, Body: []byte(`{"id":"1"}`), MaxMessages: 100}))
		}},
		{"Fetch", func(ctx context.Context, s *redisstore.Store) error {
			got, err := s.Fetch(ctx, store.FetchParams{Inbox: sample, Wait: time.Millisecond, Limit: 1})
			if len(got) > 0 {
				dead, err = s.DeadLetter(ctx, store.DeadLetterParams{Inbox: sample, Message: got[0], Keep: time.Minute})
			}
			return err
		}},
		{"Pending", func(ctx context.Context, s *redisstore.Store) error {
			return errOf(s.Pending(ctx, store.FetchParams{Inbox: sample, Limit: 9}))
		}},
		{"Acknowledge", func(ctx context.Context, s *redisstore.Store) error { return s.Acknowledge(ctx, sample, "1-1") }},
		{"DeadLetters", func(ctx context.Context, s *redisstore.Store) error { return errOf(s.DeadLetters(ctx, sample, "", 9)) }},
		{"Discard", func(ctx context.Context, s *redisstore.Store) error { return errOf(s.Discard(ctx, sample, dead)) }},
		{"FetchAbandoned", func(ctx context.Context, s *redisstore.Store) error { return errOf(s.FetchAbandoned(ctx, sample, 9)) }},
		{"Allow", func(ctx context.Context, s *redisstore.Store) error {
			return errOf(s.Allow(ctx, store.AllowParams{Key: sample, Limit: 100, Window: time.Minute}))
		}},
		{"Lock", func(ctx context.Context, s *redisstore.Store) error {
			return errOf(s.Lock(ctx, store.LockParams{Name: sample, Holder: "holder", TTL: time.Minute}))
		}},
		{"Lock of another holder", func(ctx context.Context, s *redisstore.Store) error {
			return errOf(s.Lock(ctx, store.LockParams{Name: sample, Holder: "another", TTL: time.Minute}))
		}},
		{"WriteValue", func(ctx context.Context, s *redisstore.Store) error {
			var errs []error
			for _, key := range sampleValues {
				p := store.WriteValueParams{Key: key, Parts: map[string][]byte{store.BodyPart: []byte("{}"), "generation": []byte("1")}, TTL: time.Minute, Fence: 1}
				errs = append(errs, errOf(s.WriteValue(ctx, p)))
			}
			return errors.Join(errs...)
		}},
		{"ReadValues", func(ctx context.Context, s *redisstore.Store) error {
			var queries []store.ValueQuery
			for _, key := range sampleValues {
				queries = append(queries, store.ValueQuery{Key: key}, store.ValueQuery{Key: key, Known: "other"})
			}
			return errOf(s.ReadValues(ctx, queries...))
		}},
		{"Enqueue", func(ctx context.Context, s *redisstore.Store) error {
			p := fairqueue.EnqueueParams{Waiter: waiter, Requirements: "{}", Weight: 1, MaxWaiting: 10}
			err := errOf(s.Enqueue(ctx, sample, p))
			p.ID = "second"
			return errors.Join(err, errOf(s.Enqueue(ctx, sample, p)))
		}},
		{"Beat", func(ctx context.Context, s *redisstore.Store) error { return errOf(s.Beat(ctx, sample, sample)) }},
		{"OpenClasses", func(ctx context.Context, s *redisstore.Store) error {
			return errOf(s.OpenClasses(ctx, func(core.PoolID, string) bool { return false }, sample))
		}},
		{"ViewQueue", func(ctx context.Context, s *redisstore.Store) error {
			return errOf(s.ViewQueue(ctx, sample, fairqueue.ViewParams{Flows: 9, Waiters: 9}))
		}},
		{"Offer", func(ctx context.Context, s *redisstore.Store) error {
			return errOf(s.Offer(ctx, sample, 1, []string{"class"}))
		}},
		{"Return", func(ctx context.Context, s *redisstore.Store) error {
			return s.Settle(ctx, sample, waiter, fairqueue.Returned)
		}},
		{"AdmitMember", func(ctx context.Context, s *redisstore.Store) error {
			return errors.Join(errOf(s.AdmitMember(ctx, member)), errOf(s.AdmitMember(ctx, sessions)))
		}},
		{"RenewMembers", func(ctx context.Context, s *redisstore.Store) error {
			return errOf(s.RenewMembers(ctx, store.RenewParams{Tenant: sample, Kind: store.TenantJob, Members: []string{sample}, Keep: time.Minute}))
		}},
		{"ReadTenants", func(ctx context.Context, s *redisstore.Store) error {
			return errOf(s.ReadTenants(ctx, []core.TenantID{sample}))
		}},
	}
}

// cleanup are calls that remove what the others have written. They come last.
func cleanup() []storeCall {
	member := store.MemberParams{Tenant: sample, Kind: store.TenantJob, Member: sample, Undo: true, Limits: core.TenantLimits{DispatchRate: 1000}}
	waiter := fairqueue.Waiter{ID: sample, Class: "class", Tenant: sample, Instance: sample}
	return []storeCall{
		{"RemoveMember", func(ctx context.Context, s *redisstore.Store) error { return s.RemoveMember(ctx, member) }},
		{"Leave", func(ctx context.Context, s *redisstore.Store) error {
			return s.Settle(ctx, sample, waiter, fairqueue.Left)
		}},
		{"Withdraw", func(ctx context.Context, s *redisstore.Store) error {
			return s.Announce(ctx, store.AnnounceParams{ID: sample})
		}},
		{"RemoveInbox", func(ctx context.Context, s *redisstore.Store) error { return errOf(s.RemoveInbox(ctx, sample)) }},
		{"Revoke", func(ctx context.Context, s *redisstore.Store) error {
			return s.Revoke(ctx, core.LeaseRef{Node: sample, Job: sample, Attempt: 1, Token: "token"})
		}},
		{"Remove", func(ctx context.Context, s *redisstore.Store) error {
			return errOf(s.Remove(ctx, store.RemoveParams{Node: sample}))
		}},
	}
}

// TestMalformedValues: whatever is stored, no call of a store panics, an error that it causes is logged with its key and without the value,
// and a store can be opened. The table says which calls fail, the first time and when all were made again; other calls mend what they can.
func TestMalformedValues(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	wantAllFamilies(t)
	var mu sync.Mutex
	table := make(map[string]string)
	t.Run("keys", func(t *testing.T) {
		for family := range redisstore.Families("", sample) {
			for _, kind := range redistest.Malformations() {
				t.Run(family+"/"+kind.Name, func(t *testing.T) {
					t.Parallel()
					only := -1
					if *malformedFields {
						only = 0
					}
					for fields := 1; only < fields; only++ {
						result, count := checkMalformed(t, redis, family, kind, only)
						mu.Lock()
						table[fmt.Sprintf("%-12s %-10s %2d", family, kind.Name, only)] = result
						mu.Unlock()
						if fields = count; only < 0 {
							break
						}
					}
				})
			}
		}
	})
	for _, name := range slices.Sorted(maps.Keys(table)) {
		t.Logf("%s  %s", name, table[name])
	}
}

// checkMalformed malforms a family in a store of its own, and returns what became of the calls, and how many fields there were.
func checkMalformed(t *testing.T, redis *redistest.Server, family string, kind redistest.Malformation, only int) (result string, fields int) {
	t.Helper()
	var lines bytes.Buffer
	var prefix string
	s := open(t, redis.URL(), func(o *redisstore.Options) {
		prefix, o.Log = o.Prefix, slog.New(slog.NewTextHandler(&lines, nil))
	})
	calls := storeCalls()
	if failed := callAll(t, s, calls); len(failed) > 0 && prefix != "" {
		t.Fatalf("before anything was malformed: %v", failed)
	}
	keys := redisstore.Families(prefix, sample)[family]
	for _, key := range keys {
		fields = max(fields, redis.Malform(key, kind, only))
	}
	first := callAll(t, s, append(slices.Clone(calls), cleanup()...))
	if log := lines.String(); strings.Contains(log, "garbage") || strings.Contains(log, "18446744073709551616") {
		t.Errorf("a value was logged:\n%s", log)
	}
	for _, key := range keys { // what the calls have written since is replaced, too
		redis.Malform(key, kind, only)
	}
	again := open(t, redis.URL(), func(o *redisstore.Options) { o.Prefix = prefix })
	callAll(t, again, calls)
	last := callAll(t, again, calls)
	return fmt.Sprintf("first: %v; in the end: %v", first, last), fields
}

// callAll makes calls and returns the names of those that failed.
func callAll(t *testing.T, s *redisstore.Store, calls []storeCall) (failed []string) {
	t.Helper()
	for _, c := range calls {
		err := func() (err error) {
			defer func() {
				if r := recover(); r != nil {
					t.Errorf("%s panics: %v", c.name, r)
				}
			}()
			return c.call(t.Context(), s)
		}()
		if errors.Is(err, store.ErrDown) {
			t.Errorf("%s says that the store is down: %v", c.name, err)
		}
		if err != nil && !errors.Is(err, store.ErrNoNode) && !errors.Is(err, store.ErrNoJob) {
			failed = append(failed, c.name)
			t.Logf("%s: %v", c.name, err)
		}
	}
	return failed
}

// wantAllFamilies checks that every method of keys is a family.
func wantAllFamilies(t *testing.T) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "keys.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var methods []string
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil && f.Name.Name != "tenant" { // the beginning of others
			methods = append(methods, f.Name.Name)
		}
	}
	slices.Sort(methods)
	if diff := cmp.Diff(methods, slices.Sorted(maps.Keys(redisstore.Families("", sample)))); diff != "" {
		t.Fatalf("families (-of keys.go +of this test):\n%s", diff)
	}
}
