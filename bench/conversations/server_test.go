package conversations

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/scheduler"
	"github.com/lingua-scheduler/lingua/wire"
)

// beScheduler makes a process of this test binary the scheduler.
const beScheduler = "LINGUA_BENCH_SCHEDULER"

func TestMain(m *testing.M) {
	if os.Getenv(beScheduler) != "" {
		serve()
		return
	}
	os.Exit(m.Run())
}

// memory is what a process holds once nothing is garbage.
type memory struct{ Heap, Stack, Goroutines uint64 }

func (m memory) total() uint64 { return m.Heap + m.Stack }

// serve is the scheduler's process: it says its address, then how much it holds whenever it is asked, and ends with its
// standard input.
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

// process is the scheduler's process, seen from outside.
type process struct {
	pid int
	url string
	in  io.WriteCloser
	out *bufio.Reader
}

// start runs a scheduler until the test ends.
func start(tb testing.TB) *process {
	tb.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), beScheduler+"=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	p := &process{in: in, out: bufio.NewReader(out), pid: cmd.Process.Pid}
	tb.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	line, err := p.out.ReadString('\n')
	if err != nil {
		tb.Fatal(err)
	}
	p.url = line[:len(line)-1]
	return p
}

// memory asks the scheduler how much it holds.
func (p *process) memory(tb testing.TB) memory {
	tb.Helper()
	if _, err := fmt.Fprintln(p.in); err != nil {
		tb.Fatal(err)
	}
	line, err := p.out.ReadString('\n')
	var m memory
	if err != nil || json.Unmarshal([]byte(line), &m) != nil {
		tb.Fatalf("%q, %v", line, err)
	}
	return m
}
