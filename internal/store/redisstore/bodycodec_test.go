package redisstore

import (
	"bytes"
	"compress/flate"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// nodeWithServices returns a node that declares services as a model hub names them.
func nodeWithServices(services int) *core.Node {
	n := &core.Node{ID: "node-a", Declaration: core.Declaration{Health: core.HealthReady, MaxJobs: 8, Tenant: "acme", SecretHash: "0123abcd"}, Epoch: 7, Revision: 3, Version: 5}
	n.Semantic = core.LangSet{"de", "en"}
	for i := range services {
		n.Services = append(n.Services, core.Service{
			ID: fmt.Sprintf("translate-%04x-%d", i*7919%65536, i), Version: fmt.Sprintf("1.%d.%d", i%17, i%5), Type: "nmt", Status: core.ServiceReady,
		})
	}
	return n
}

func fieldsFor(n *core.Node) nodeFields {
	return nodeFields{epoch: fmt.Sprint(n.Epoch), rev: fmt.Sprint(n.Revision), ver: fmt.Sprint(n.Version)}
}

// TestBodiesAreReadAsTheyWereWritten checks nodes below and above the size from which they are compressed.
func TestBodiesAreReadAsTheyWereWritten(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		services   int
		compressed bool
	}{{0, false}, {10, false}, {400, true}, {4096, true}} {
		n := nodeWithServices(c.services)
		body, err := encodeNode(n)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.HasPrefix(body, compressedMark); got != c.compressed {
			t.Errorf("%d services: compressed %v, want %v", c.services, got, c.compressed)
		}
		got, err := decodeNode(n.ID, fieldsFor(n), body)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(n, got); diff != "" {
			t.Errorf("%d services (-want +got):\n%s", c.services, diff)
		}
		if c.services == 4096 && len(body) > 64<<10 {
			t.Errorf("4096 services take %d bytes, want at most 64 KiB", len(body))
		}
	}
}

// TestBrokenBodiesAreRefused checks bodies that no instance writes.
func TestBrokenBodiesAreRefused(t *testing.T) {
	t.Parallel()
	whole, err := encodeNode(nodeWithServices(400))
	if err != nil {
		t.Fatal(err)
	}
	for name, body := range map[string]string{
		"empty": "", "only the mark": compressedMark, "without a line": compressedMark + "{}", "cut off": whole[:len(whole)/2],
		"not compressed": compressedMark + "{}\nnot compressed", "not JSON": "xyz",
	} {
		if n, err := decodeNode("node-a", nodeFields{}, body); err == nil {
			t.Errorf("%s: read as %+v", name, n)
		}
	}
	var bomb bytes.Buffer
	bomb.WriteString(compressedMark + "{}\n")
	w, _ := flate.NewWriter(&bomb, flate.BestSpeed)
	_, _ = w.Write(make([]byte, maxBody+1))
	_ = w.Close()
	if _, err := decodeNode("node-a", nodeFields{}, bomb.String()); !errors.Is(err, errBodySize) {
		t.Errorf("%d bytes that decompress to more than allowed: %v", bomb.Len(), err)
	}
}

// BenchmarkBody measures what the compression of a large declaration costs and saves: bytes is the size of the stored body.
func BenchmarkBody(b *testing.B) {
	for _, services := range []int{20, 100, 4096} {
		n := nodeWithServices(services)
		body, err := encodeNode(n)
		if err != nil {
			b.Fatal(err)
		}
		text, _ := unpackBody(body)
		b.Run(fmt.Sprintf("encode/%d", services), func(b *testing.B) {
			for b.Loop() {
				_, _ = encodeNode(n)
			}
			b.ReportMetric(float64(len(body)), "bytes")
			b.ReportMetric(float64(len(text)), "bytes-of-JSON")
		})
		b.Run(fmt.Sprintf("decode/%d", services), func(b *testing.B) {
			for b.Loop() {
				_, _ = decodeNode(n.ID, fieldsFor(n), body)
			}
		})
	}
}
