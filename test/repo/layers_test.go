package repo_test

import (
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/lingua-scheduler/lingua/"

// layers are the packages from the lowest layer up. A package may import only packages of lower layers.
var layers = [][]string{
	{"internal/run", "test/testrun", "test/size"},
	{"wire", "wire/oggopus", "web/dashboard", "internal/endpoints", "test/child", "test/docpage", "test/sources", "test/tlstest", "test/clustertest/journal", "test/otlptest", "bench/stats", "internal/store/fairqueue"},
	{"test/stalltest", "internal/wirespec", "test/redistest", "node", "client"},
	{"internal/core", "internal/socket"},
	{"internal/store", "internal/auth", "internal/compat"},
	{"internal/store/memstore", "internal/store/redisstore", "test/storetest", "internal/telemetry", "internal/fleet", "internal/audio", "internal/journal", "internal/revocation", "internal/tracing"},
	{"internal/pick", "internal/bus", "internal/health", "internal/tenants"},
	{"internal/stats"},
	{"internal/config", "internal/pools", "internal/waiting"},
	{"internal/dispatch"},
	{"internal/nodes"},
	{"internal/convert", "internal/lab"},
	{"internal/session", "internal/nodeconn", "test/fleet"},
	{"internal/server"},
	{"internal/scheduler"},
	{"cmd/lingua", "test/clustertest", "bench/inprocess", "examples/node", "examples/client", "deploy/dockerfile", "deploy/grafana/gen"},
	{"test/dashtest"},
	{"bench", "bench/peers", "bench/conversations", "bench/cluster", "bench/agreement", "bench/guards", "bench/scale", "bench/waiting"},
}

// public are the packages for users of the module. Of the internal packages they may import only sharedByPublic, which import
// nothing of this module.
var (
	public         = []string{"wire", "wire/oggopus", "node", "client"}
	sharedByPublic = []string{"internal/endpoints", "internal/run"}
)

func TestImportsFollowTheLayers(t *testing.T) {
	t.Parallel()
	level := make(map[string]int)
	for i, layer := range layers {
		for _, pkg := range layer {
			level[pkg] = i
		}
	}
	fset := token.NewFileSet()
	goFiles(t, func(file, dir string) {
		if strings.HasSuffix(file, "_test.go") {
			return // tests may import every package
		}
		from, known := level[dir]
		if !known {
			t.Errorf("%s is in no layer: add %s to the layers in test/repo/layers_test.go", file, dir)
			return
		}
		parsed, err := parser.ParseFile(fset, file, nil, parser.ImportsOnly)
		if err != nil {
			t.Error(err)
			return
		}
		for _, spec := range parsed.Imports {
			imported, ours := strings.CutPrefix(strings.Trim(spec.Path.Value, `"`), module)
			if !ours {
				continue
			}
			if to, ok := level[imported]; !ok || to >= from {
				t.Errorf("%s imports %s, which is not in a lower layer", file, imported)
			}
			if slices.Contains(public, dir) && !slices.Contains(public, imported) && !slices.Contains(sharedByPublic, imported) {
				t.Errorf("%s is public and imports %s", file, imported)
			}
			if slices.Contains(sharedByPublic, dir) {
				t.Errorf("%s is shared by the public packages and imports %s", file, imported)
			}
		}
	})
}
