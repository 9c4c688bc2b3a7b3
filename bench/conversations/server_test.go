package conversations

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/scheduler"
	"github.com/lingua-scheduler/lingua/test/clustertest"
	"github.com/lingua-scheduler/lingua/wire"
)

// schedulerVariable makes a process of this test binary the scheduler.
const schedulerVariable = "LINGUA_BENCH_SCHEDULER"

func TestMain(m *testing.M) {
	if os.Getenv(schedulerVariable) != "" {
		serve()
		return
	}
	os.Exit(m.Run())
}

// memory is what a process uses after a garbage collection.
type memory struct{ Heap, Stack, Goroutines uint64 }

func (m memory) total() uint64 { return m.Heap + m.Stack }

// serve runs the scheduler: it prints its URL, then its memory use for each line of its standard input, and ends with that.
func serve() {
	cfg := config.Default()
	cfg.Server.Port, cfg.Server.ShutdownSeconds = 0, 1
	cfg.Scheduler.Sessions.PerAddress, cfg.Server.PerAddress = 0, 0
	s, err := scheduler.New(context.Background(), cfg, wire.VersionResponse{Version: "bench"}, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		panic(err)
	}
	l, err := s.Listen(context.Background())
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = s.Run(ctx, l) })
	fmt.Println("http://" + l.Addr().String())
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		debug.FreeOSMemory()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		_ = json.NewEncoder(os.Stdout).Encode(memory{Heap: m.HeapAlloc, Stack: m.StackInuse, Goroutines: uint64(runtime.NumGoroutine())})
	}
	stop()
	running.Wait()
}

// process is the process of the scheduler, as the benchmark sees it.
type process struct {
	*clustertest.Helper
	url string
}

// startScheduler starts a scheduler, which stops at the end of the test.
func startScheduler(tb testing.TB) *process {
	tb.Helper()
	h, err := clustertest.StartHelper(os.Stderr, schedulerVariable+"=1")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		h.CloseInput()
		if err := h.WaitExit(clustertest.StartTimeout); err != nil {
			tb.Errorf("the scheduler: %v", err)
			h.KillAndWait()
		}
	})
	url, err := h.ReadLine()
	if err != nil {
		tb.Fatal(err)
	}
	return &process{Helper: h, url: url}
}

// memory asks the scheduler for its memory use.
func (p *process) memory(tb testing.TB) memory {
	tb.Helper()
	if err := p.WriteLine(nil); err != nil {
		tb.Fatal(err)
	}
	line, err := p.ReadLine()
	var m memory
	if err != nil || json.Unmarshal([]byte(line), &m) != nil {
		tb.Fatalf("the memory use is %q, %v", line, err)
	}
	return m
}
