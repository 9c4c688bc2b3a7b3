package cluster

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// instance is an instance's process, seen from outside.
type instance struct {
	url string
	in  io.Writer
	out *bufio.Reader
}

// start runs instances on one Redis until the test ends. More of the environment may be given.
func start(tb testing.TB, redis string, count int, environment ...string) []*instance {
	tb.Helper()
	all := make([]*instance, count)
	for n := range all {
		cmd := exec.Command(os.Args[0])
		cmd.Env = slices.Concat(os.Environ(), environment, []string{beInstance + "=" + redis})
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
		tb.Cleanup(func() {
			_ = in.Close()
			if err := cmd.Wait(); err != nil {
				tb.Errorf("an instance ended so: %v", err)
			}
		})
		all[n] = &instance{in: in, out: bufio.NewReader(out)}
	}
	for _, i := range all {
		line, err := i.out.ReadString('\n')
		if err != nil {
			tb.Fatal("an instance did not begin: ", err)
		}
		i.url = strings.TrimSpace(line)
	}
	return all
}

// ask has an instance do something. It may be called from any goroutine, for one instance by one at a time.
func (i *instance) ask(o order) (answer, error) {
	var a answer
	if err := json.NewEncoder(i.in).Encode(o); err != nil {
		return a, err
	}
	line, err := i.out.ReadString('\n')
	if err != nil {
		return a, err
	}
	if err := json.Unmarshal([]byte(line), &a); err != nil {
		return a, err
	}
	if a.Err != "" {
		return a, fmt.Errorf("an instance says: %s", a.Err)
	}
	return a, nil
}

// awaitNodes returns when every instance knows so many nodes.
func awaitNodes(tb testing.TB, all []*instance, want int) {
	tb.Helper()
	for _, i := range all {
		eventually(tb, func() error {
			if a, err := i.ask(order{}); err != nil || a.Nodes < want {
				return fmt.Errorf("%d of %d nodes are known at %s: %w", a.Nodes, want, i.url, err)
			}
			return nil
		})
	}
}

// eventually looks at what another process does until nothing is missing: it has no way to tell us.
func eventually(tb testing.TB, missing func() error) {
	tb.Helper()
	deadline := time.NewTimer(20 * time.Second)
	defer deadline.Stop()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for {
		err := missing()
		if err == nil {
			return
		}
		select {
		case <-deadline.C:
			tb.Fatal(err)
		case <-again.C:
		}
	}
}
