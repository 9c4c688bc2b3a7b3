package dashboard_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"reflect"
	"sort"
	"strings"
	"testing"

	"github.com/lingua-scheduler/lingua/wire"
)

var update = flag.Bool("update", false, "write src/lib/wire.ts")

// used are the answers of the API that the dashboard reads. What they consist of follows.
var used = []reflect.Type{
	reflect.TypeFor[wire.AuditList](), reflect.TypeFor[wire.Caller](), reflect.TypeFor[wire.CancelResponse](), reflect.TypeFor[wire.ClusterSeries](),
	reflect.TypeFor[wire.ConfigView](), reflect.TypeFor[wire.DeadLetterList](), reflect.TypeFor[wire.DeadLettersResponse](),
	reflect.TypeFor[wire.DirectionList](), reflect.TypeFor[wire.EventList](), reflect.TypeFor[wire.ExplainResponse](),
	reflect.TypeFor[wire.InstanceList](), reflect.TypeFor[wire.JobDetail](), reflect.TypeFor[wire.JobList](),
	reflect.TypeFor[wire.JobsCancelResponse](), reflect.TypeFor[wire.LiveOverview](), reflect.TypeFor[wire.LiveStatus](),
	reflect.TypeFor[wire.LogoutResponse](), reflect.TypeFor[wire.Node](), reflect.TypeFor[wire.NodeDetail](), reflect.TypeFor[wire.NodeList](),
	reflect.TypeFor[wire.NodeRemoved](), reflect.TypeFor[wire.NodeSeries](), reflect.TypeFor[wire.NodeTable](),
	reflect.TypeFor[wire.NodesDrainResponse](), reflect.TypeFor[wire.PoolOverview](), reflect.TypeFor[wire.ProbeResult](), reflect.TypeFor[wire.RefusedNodeList](),
	reflect.TypeFor[wire.ReloadResponse](), reflect.TypeFor[wire.RevocationList](), reflect.TypeFor[wire.SessionList](),
	reflect.TypeFor[wire.SessionTerminated](), reflect.TypeFor[wire.Stats](), reflect.TypeFor[wire.StoreStatus](),
	reflect.TypeFor[wire.TenantList](), reflect.TypeFor[wire.VersionResponse](), reflect.TypeFor[wire.WaitingList](),
}

// The types of the dashboard are those of the API.
func TestTypes(t *testing.T) {
	const file = "src/lib/wire.ts"
	g := generator{done: make(map[reflect.Type]bool), text: make(map[string]string)}
	for _, typ := range used {
		g.add(typ)
	}
	want := g.String()
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	have, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != want {
		t.Errorf("%s does not have the types of package wire: run go test ./web/dashboard -update", file)
	}
}

// generator writes Go types as TypeScript.
type generator struct {
	done map[reflect.Type]bool
	text map[string]string // interfaces by name
}

func (g *generator) String() string {
	names := make([]string, 0, len(g.text))
	for name := range g.text {
		names = append(names, name)
	}
	sort.Strings(names)
	var b strings.Builder
	b.WriteString("// Generated from package wire by go test ./web/dashboard -update. Do not edit.\n")
	for _, name := range names {
		b.WriteString("\n" + g.text[name])
	}
	return b.String()
}

// add writes a struct, and all that it consists of.
func (g *generator) add(typ reflect.Type) {
	if g.done[typ] {
		return
	}
	g.done[typ] = true
	var b strings.Builder
	fmt.Fprintf(&b, "export interface %s {\n", typ.Name())
	g.fields(&b, typ)
	b.WriteString("}\n")
	g.text[typ.Name()] = b.String()
}

func (g *generator) fields(b *strings.Builder, typ reflect.Type) {
	for f := range typ.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" {
			g.fields(b, f.Type)
			continue
		}
		if name == "-" || !f.IsExported() {
			continue
		}
		if doc := f.Tag.Get("doc"); doc != "" {
			fmt.Fprintf(b, "  /** %s */\n", doc)
		}
		optional := ""
		if strings.Contains(options, "omit") {
			optional = "?"
		}
		fmt.Fprintf(b, "  %s%s: %s;\n", name, optional, g.name(f.Type, f.Tag.Get("enum")))
	}
}

// name returns the type of a value in TypeScript.
func (g *generator) name(typ reflect.Type, enum string) string {
	if typ == reflect.TypeFor[json.RawMessage]() {
		return "unknown"
	}
	switch typ.Kind() {
	case reflect.Pointer:
		return g.name(typ.Elem(), enum)
	case reflect.Slice:
		return g.name(typ.Elem(), "") + "[]"
	case reflect.Map:
		return "Record<string, " + g.name(typ.Elem(), "") + ">"
	case reflect.Struct:
		g.add(typ)
		return typ.Name()
	case reflect.String:
		if enum != "" {
			return "'" + strings.ReplaceAll(enum, ",", "' | '") + "'"
		}
		return "string"
	case reflect.Bool:
		return "boolean"
	case reflect.Int, reflect.Int64, reflect.Uint64, reflect.Float64:
		return "number"
	default:
		return "unknown"
	}
}
