package drill

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/test/clustertest"
	"github.com/lingua-scheduler/lingua/test/stalltest"
)

var frozenNodes = flag.Int("drill-frozen-nodes", 3, "how many nodes TestNodeFreezes stops, and how many TestPacketsAreDropped cuts off")

const (
	// frozenBatch is how many nodes are started together: each needs some seconds until the instance knows how fast it answers.
	frozenBatch = 10
	// answersTake is longer than a node that works needs for 20 answers to pings.
	answersTake = 16 * time.Second
	// frozenLimit is within which time a job of a frozen node must be with another one, which is before any other mechanism moves it.
	frozenLimit = 6 * time.Second
)

// longAttempts are settings with which no attempt ends before its node fails.
const longAttempts = `
[scheduler.dispatch]
attempt_timeout_ms = 300000
job_timeout_ms = 400000
`

// TestNodeFreezes stops node processes that have a job in hand (SIGSTOP): their connections stay open. Each job is done by another node, and the
// time until that has it is measured. In full:
//
//	go test -count=1 -v -run 'TestNodeFreezes|TestPacketsAreDropped' -timeout 30m ./test/drill -drill-frozen-nodes 60
func TestNodeFreezes(t *testing.T) {
	t.Parallel()
	ctx, d := startKillDrill(t, commonSettings+longAttempts)
	d.freezeAll(ctx, func(id string, at, through *clustertest.Instance) (*victim, func()) {
		v := d.startVictim(ctx, d.nodeCommand(at.URL(), id), id, through)
		return v, func() { d.Must(v.process.Signal(syscall.SIGSTOP)) }
	})
}

// TestPacketsAreDropped cuts nodes off that have a job in hand: nothing that is sent to them arrives, nor what they send, and no connection ends.
// Each node is in a network namespace of its own.
func TestPacketsAreDropped(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	// Without keys, what calls an instance by another name than that of this machine is refused.
	ctx, d := startKillDrill(t, longAttempts+strings.Replace(commonSettings, "[server]\n", "[server]\ninsecure = true\n", 1))
	d.freezeAll(ctx, func(id string, at, through *clustertest.Instance) (*victim, func()) {
		network := newNamespace(t, at.Addr())
		command := append([]string{"ip", "netns", "exec", network.name}, d.nodeCommand("http://"+network.address, id)...)
		return d.startVictim(ctx, command, id, through), network.cut
	})
}

// freezeAll starts nodes with a job in hand, and makes one after the other fail without a word. start starts one that is connected to an instance.
func (d *killDrill) freezeAll(ctx context.Context, start func(id string, at, through *clustertest.Instance) (*victim, func())) {
	stalls, stopStalls := stalltest.Start()
	defer stopStalls()
	var delivered, ended []time.Duration
	early := 0
	for done := 0; done < *frozenNodes; {
		batch := min(frozenBatch, *frozenNodes-done)
		victims, fail := make([]*victim, batch), make([]func(), batch)
		for i := range batch {
			n := done + i
			at, through := d.Instances[n%len(d.Instances)], d.Instances[(n+n/len(d.Instances)%2)%len(d.Instances)]
			victims[i], fail[i] = start(fmt.Sprint("frozen-", n), at, through)
			defer victims[i].process.KillAndWait()
		}
		run.Sleep(ctx, answersTake)
		for i, v := range victims {
			next, end := d.measure(ctx, v, fail[i])
			v.process.KillAndWait()
			if next < 0 {
				early++ // it was so slow that its job had moved before
				continue
			}
			delivered, ended = append(delivered, next), append(ended, end)
		}
		done += batch
	}
	d.TB.Logf("%d nodes were suspected before", early)
	d.wantNoViolations()
	if len(delivered) == 0 {
		return
	}
	d.TB.Logf("with another node after %s; done after %s, of which %v is work", quantiles(delivered), quantiles(ended), killWork)
	if highest := slices.Max(delivered); highest > frozenLimit+stalls.Total() {
		d.TB.Errorf("it took %v until another node had a job; the machine was stalled for %v", highest, stalls.Total())
	}
}

// namespaces counts them: each has a subnet of its own.
var namespaces atomic.Int64

// namespace is a network namespace, from which one address can be reached.
type namespace struct {
	tb      testing.TB
	name    string
	device  string // its end of the link
	address string // at which what is outside is reached
}

// newNamespace makes a namespace, and forwards connections from it to an address. It is removed after the test.
func newNamespace(t *testing.T, to string) *namespace {
	t.Helper()
	number := (os.Getpid()*61 + int(namespaces.Add(1))) % (1 << 14)
	n := &namespace{tb: t, name: fmt.Sprint("lingua-", os.Getpid(), "-", number)}
	outside := fmt.Sprint("lingua", number)
	n.device = outside + "i"
	subnet := fmt.Sprintf("10.213.%d.", number>>6)
	host, peer := subnet+fmt.Sprint(number&63<<2+1), subnet+fmt.Sprint(number&63<<2+2)
	n.ip("netns", "add", n.name)
	t.Cleanup(func() { n.ip("netns", "del", n.name) })
	n.ip("link", "add", outside, "type", "veth", "peer", "name", n.device, "netns", n.name)
	n.ip("addr", "add", host+"/30", "dev", outside)
	n.ip("link", "set", outside, "up")
	n.ip("-n", n.name, "addr", "add", peer+"/30", "dev", n.device)
	n.ip("-n", n.name, "link", "set", n.device, "up")
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", host+":0")
	if err != nil {
		t.Fatal(err)
	}
	n.address = listener.Addr().String()
	var running sync.WaitGroup
	t.Cleanup(func() {
		_ = listener.Close()
		running.Wait()
	})
	running.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			running.Go(func() { forward(t.Context(), c, to) })
		}
	})
	return n
}

// cut drops what is sent to the namespace, and what comes from it.
func (n *namespace) cut() {
	n.ip("-n", n.name, "link", "set", n.device, "down")
}

func (n *namespace) ip(args ...string) {
	n.tb.Helper()
	if text, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		n.tb.Fatalf("ip %v: %v: %s", args, err, text)
	}
}

// forward copies between a connection and an address until either end closes, or the context ends.
func forward(ctx context.Context, c net.Conn, to string) {
	defer c.Close()
	other, err := new(net.Dialer).DialContext(ctx, "tcp", to)
	if err != nil {
		return
	}
	defer other.Close()
	defer context.AfterFunc(ctx, func() {
		_ = c.Close()
		_ = other.Close()
	})()
	var copying sync.WaitGroup
	for _, pair := range [][2]net.Conn{{c, other}, {other, c}} {
		copying.Go(func() {
			_, _ = io.Copy(pair[0], pair[1])
			_ = pair[0].Close()
			_ = pair[1].Close()
		})
	}
	copying.Wait()
}
