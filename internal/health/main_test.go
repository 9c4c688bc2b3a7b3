package health

import (
	"log/slog"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/store/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var discardLog = slog.New(slog.DiscardHandler)

var enZH = core.Direction{Src: "en", Tgt: "zh"}

func newStore() *memstore.Store {
	return memstore.New(store.Timing{Presence: 15 * time.Second, Job: time.Minute})
}
