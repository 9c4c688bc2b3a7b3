package transcripts

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lingua-scheduler/lingua/test/clustertest"
	"github.com/lingua-scheduler/lingua/test/redistest"
)

// buildDir is a directory for the binary. TestMain creates and removes it.
var buildDir string

func TestMain(m *testing.M) {
	var err error
	if buildDir, err = os.MkdirTemp("", "transcripts"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(buildDir)
		os.Exit(code)
	}))
}

// buildOnce builds the scheduler, once for all transcripts.
var buildOnce = sync.OnceValues(func() (string, error) { return clustertest.Build(buildDir, "lingua") })

// patientEnvironment makes timeouts so long that none ends on a busy machine. None of these values is in a frame.
var patientEnvironment = []string{
	"LINGUA_SCHEDULER_DISPATCH_ACK_TIMEOUT_MS=10000", "LINGUA_SCHEDULER_TASK_BINDING_RESERVED_TTL_SECONDS=60",
	"LINGUA_SCHEDULER_NODES_PRESENCE_TTL_MS=600000", "LINGUA_SCHEDULER_DISPATCH_HEARTBEAT_STALE_MS=600000",
	"LINGUA_SCHEDULER_SESSIONS_DISCONNECT_GRACE_MS=60000", "LINGUA_SCHEDULER_SESSIONS_JOIN_WAIT_MS=10000",
	"LINGUA_SCHEDULER_DISPATCH_DECIDE_WITHIN_MS=10000", "LINGUA_SCHEDULER_PHASE2_HEARTBEAT_TTL_SECONDS=60",
}

// startInstance starts one scheduler with the embedded store.
func startInstance(t *testing.T, environment ...string) *clustertest.Instance {
	t.Helper()
	i := newInstance(t, "a", environment)
	if err := i.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return i
}

// startTwo starts two instances that share a Redis.
func startTwo(t *testing.T) (a, b *clustertest.Instance) {
	t.Helper()
	redis := redistest.Start(t)
	a, b = newInstance(t, "a", nil), newInstance(t, "b", nil)
	for _, i := range []*clustertest.Instance{a, b} {
		i.Args = []string{"--store", redis.URL()}
		if err := i.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return a, b
}

func newInstance(t *testing.T, name string, environment []string) *clustertest.Instance {
	t.Helper()
	binary, err := buildOnce()
	if err != nil {
		t.Fatal(err)
	}
	i := clustertest.NewInstance(t, name, binary, filepath.Join(t.TempDir(), name+".log"))
	i.Env = append(append([]string{}, patientEnvironment...), environment...)
	return i
}

// terminate asks an instance to stop.
func terminate(t *testing.T, i *clustertest.Instance) {
	t.Helper()
	if err := i.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
}

// post calls an operation of the API without a body, as an operator does.
func post(t *testing.T, i *clustertest.Instance, path string) {
	t.Helper()
	if err := i.API.Post(t.Context(), path, struct{}{}, new(any)); err != nil {
		t.Fatalf("POST %s: %v", path, err)
	}
}

// waitTimeout bounds every wait of these tests.
const waitTimeout = 60 * time.Second

// tone is PCM of a tone at 16 kHz.
func tone(ms int) []byte {
	pcm := make([]byte, 32*ms)
	for i := range len(pcm) / 2 {
		v := int16(8000 * math.Sin(float64(i)/5))
		pcm[2*i], pcm[2*i+1] = byte(v), byte(v>>8)
	}
	return pcm
}

// opusPacket is a packet of 20 ms of Opus. Its content is of no interest to a scheduler.
func opusPacket(n byte) []byte { return []byte{0x78, 0xc0, 0xff, n} }

func instanceNote(what string, i *clustertest.Instance) string {
	return fmt.Sprintf("%s instance %s", what, i.Name)
}
