package wire

import (
	"bytes"
	"encoding/json"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// compareGolden compares a body with its golden file. Nodes and clients in other languages depend on these bodies: a
// difference is a change of the protocol.
func compareGolden(t *testing.T, name string, v any) {
	t.Helper()
	var got bytes.Buffer
	enc := json.NewEncoder(&got)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join("testdata", name+".json")
	if *update {
		if err := os.WriteFile(file, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v (write it with: go test ./wire -update)", err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

func TestGolden(t *testing.T) {
	t.Parallel()
	for _, body := range bodies {
		typ := reflect.TypeOf(body)
		for suffix, all := range map[string]bool{"": true, "_required": false} {
			t.Run(typ.Name()+suffix, func(t *testing.T) {
				t.Parallel()
				v := sample(t, typ, all)
				compareGolden(t, snakeCase(typ.Name())+suffix, v.Interface())

				// Decoding the encoded body gives the same value.
				body, err := json.Marshal(v.Interface())
				if err != nil {
					t.Fatal(err)
				}
				back := reflect.New(typ)
				if err := Decode(body, back.Interface()); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(v.Interface(), back.Elem().Interface()); diff != "" {
					t.Errorf("after a round trip (-want +got):\n%s", diff)
				}
			})
		}
	}
}

func TestEveryGoldenFileHasAType(t *testing.T) {
	t.Parallel()
	want := make(map[string]bool)
	for _, body := range bodies {
		name := snakeCase(reflect.TypeOf(body).Name())
		want[name+".json"], want[name+"_required.json"] = true, true
	}
	files, err := filepath.Glob("testdata/*.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !want[filepath.Base(f)] {
			t.Errorf("%s belongs to no type", f)
		}
	}
}

// sources parses the Go files of the package, without its tests.
func sources(t *testing.T) []*ast.File {
	t.Helper()
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	return files
}

func TestEveryBodyHasAGoldenFile(t *testing.T) {
	t.Parallel()
	var declared, listed []string
	for _, file := range sources(t) {
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok || !spec.Name.IsExported() {
				return true
			}
			if s, ok := spec.Type.(*ast.StructType); ok && hasJSONTags(s) {
				declared = append(declared, spec.Name.Name)
			}
			return true
		})
	}
	for _, body := range bodies {
		listed = append(listed, reflect.TypeOf(body).Name())
	}
	slices.Sort(declared)
	slices.Sort(listed)
	if diff := cmp.Diff(declared, listed); diff != "" {
		t.Errorf("bodies (-declared +tested):\n%s", diff)
	}
}

// hasJSONTags reports whether a field of a struct has a JSON tag.
func hasJSONTags(s *ast.StructType) bool {
	return slices.ContainsFunc(s.Fields.List, func(f *ast.Field) bool {
		return f.Tag != nil && strings.Contains(f.Tag.Value, "json:")
	})
}

// snakeCase converts the name of a type to the name of its file.
func snakeCase(name string) string {
	var b strings.Builder
	for i, r := range name {
		upper := r >= 'A' && r <= 'Z'
		if upper && i > 0 && (name[i-1] < 'A' || name[i-1] > 'Z') {
			b.WriteByte('_')
		}
		b.WriteString(strings.ToLower(string(r)))
	}
	return b.String()
}
