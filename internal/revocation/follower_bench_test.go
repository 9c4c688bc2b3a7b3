package revocation_test

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/revocation"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/memstore"
)

// BenchmarkAdd measures what it costs to end a session, by how many have been ended.
func BenchmarkAdd(b *testing.B) {
	for _, entries := range []int{100, 9600} {
		b.Run(fmt.Sprint(entries), func(b *testing.B) {
			st := memstore.New(store.Timing{})
			defer st.Close()
			f := revocation.NewFollower(st, slog.New(slog.DiscardHandler))
			var all []store.Revocation
			for i := range entries {
				all = append(all, store.Revocation{
					RevocationTarget: store.RevocationTarget{Kind: store.RevokedSession, Tenant: "acme", Name: fmt.Sprint("s-", i)}, Now: true, Ended: true,
					At: time.Now().Add(-time.Minute).Add(time.Duration(i)), Until: time.Now().Add(time.Hour),
				})
			}
			if _, err := st.PutRevocations(b.Context(), store.PutRevocationsParams{Entries: all}); err != nil {
				b.Fatal(err)
			}
			if err := f.Read(b.Context()); err != nil {
				b.Fatal(err)
			}
			for i := 0; b.Loop(); i++ {
				target := store.RevocationTarget{Kind: store.RevokedSession, Tenant: core.TenantID("acme"), Name: fmt.Sprint("s-", i%100)}
				if f.CountSessions("acme") < entries {
					b.Fatal("entries were lost")
				}
				if _, err := f.Add(b.Context(), store.Revocation{RevocationTarget: target, Ended: true}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
