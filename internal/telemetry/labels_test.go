package telemetry

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"
)

// TestLabelValuesStartAtZero: a new instance has a series for each value in labels.go.
func TestLabelValuesStartAtZero(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "labels.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, series := gather(t, New().Registry)
	values := 0
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		values++
		for name, count := range series {
			if count == 0 && (strings.Contains(name, "="+value+",") || strings.Contains(name, "="+value+"}")) {
				return true
			}
		}
		t.Errorf("%s: no series has the value %q from the start", spec.Names[0].Name, value)
		return true
	})
	if values < 25 {
		t.Errorf("%d values were found", values)
	}
}
