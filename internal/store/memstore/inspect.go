package memstore

import (
	"context"

	"github.com/lingua-scheduler/lingua/internal/store"
)

// Inspect implements store.Inspector. There are no servers.
func (*Store) Inspect(context.Context) store.Inspection { return store.Inspection{Kind: "memory"} }
