package repo_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

// namedLabels are the metrics whose values are named in internal/telemetry/labels.go, by the fields through which they are counted.
var namedLabels = map[string]bool{
	"NodeRegistration": true, "Deliveries": true, "Orphans": true, "Admissions": true, "Counted": true, "Events": true, "Messages": true,
	"Takeovers": true, "StoreLost": true, "Retries": true, "Refusals": true, "NodeSelection": true,
}

// TestLabelValuesAreNamed: packages that count these metrics use the named values, for which there are series from the start. A value of
// their own would begin with its first event, in which rate() sees nothing.
func TestLabelValuesAreNamed(t *testing.T) {
	t.Parallel()
	fset, found := token.NewFileSet(), 0
	goFiles(t, func(file, dir string) {
		if strings.HasSuffix(file, "_test.go") || dir == "internal/telemetry" {
			return
		}
		parsed, err := parser.ParseFile(fset, file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			method, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || method.Sel.Name != "WithLabelValues" {
				return true
			}
			metric, ok := method.X.(*ast.SelectorExpr)
			if !ok || !namedLabels[metric.Sel.Name] {
				return true
			}
			found++
			for _, value := range call.Args {
				if literal, ok := value.(*ast.BasicLit); ok {
					t.Errorf("%v: %s is not named in internal/telemetry/labels.go", fset.Position(literal.Pos()), literal.Value)
				}
			}
			return true
		})
	})
	if found < 20 {
		t.Errorf("%d calls were found", found)
	}
}
