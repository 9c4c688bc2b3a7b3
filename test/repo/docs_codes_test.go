package repo_test

import (
	"go/ast"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/convert"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/socket"
	"github.com/lingua-scheduler/lingua/internal/wirespec"
	"github.com/lingua-scheduler/lingua/test/docpage"
	"github.com/lingua-scheduler/lingua/test/sources"
	"github.com/lingua-scheduler/lingua/wire"
)

// codesTable returns the rows of a table of docs/codes.md.
func codesTable(t *testing.T, name string, columns int) [][]string {
	t.Helper()
	text, err := os.ReadFile("docs/codes.md")
	if err != nil {
		t.Fatal(err)
	}
	page := docpage.Page{Path: "docs/codes.md", Text: string(text)}
	rows := page.Table(name)
	if len(rows) == 0 {
		t.Fatalf("docs/codes.md has no table %q", name)
	}
	for _, row := range rows {
		if len(row) != columns || slices.Contains(row[2:], "") {
			t.Errorf("table %q: want %d cells that say something, got %q", name, columns, row)
		}
	}
	return rows
}

// firstCells returns the first cells of rows, without backticks, sorted.
func firstCells(rows [][]string) []string {
	var names []string
	for _, row := range rows {
		names = append(names, strings.Trim(row[0], "`"))
	}
	slices.Sort(names)
	return names
}

// parsePackage parses the Go files of a directory, without its tests.
func parsePackage(t *testing.T, dir string) []*ast.File {
	t.Helper()
	files, err := sources.Parse(dir)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// constants returns the constants of a package whose values are literals and that a filter accepts, by name.
func constants(t *testing.T, dir string, accept func(name string, spec *ast.ValueSpec) bool) map[string]string {
	t.Helper()
	found := make(map[string]string)
	for _, f := range parsePackage(t, dir) {
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			for i, id := range spec.Names {
				if i >= len(spec.Values) || !accept(id.Name, spec) {
					continue
				}
				if literal, ok := spec.Values[i].(*ast.BasicLit); ok {
					value, err := strconv.Unquote(literal.Value)
					if err != nil {
						value = literal.Value // a number
					}
					found[id.Name] = value
				}
			}
			return true
		})
	}
	if len(found) == 0 {
		t.Fatalf("%s has no such constants", dir)
	}
	return found
}

// ofType accepts the constants of a type.
func ofType(name string) func(string, *ast.ValueSpec) bool {
	return func(_ string, spec *ast.ValueSpec) bool {
		switch typ := spec.Type.(type) {
		case *ast.Ident:
			return typ.Name == name
		case *ast.SelectorExpr:
			return typ.Sel.Name == name
		}
		return false
	}
}

// values returns the values of constants, sorted, without empty ones.
func values(all ...map[string]string) []string {
	var list []string
	for _, constants := range all {
		for _, v := range constants {
			if v != "" {
				list = append(list, v)
			}
		}
	}
	slices.Sort(list)
	return list
}

// TestErrorCodesPage compares the table of error codes with the code: every code is in it, with its HTTP status, its close code,
// and whether it is fatal and may be retried.
func TestErrorCodesPage(t *testing.T) {
	t.Parallel()
	rows := codesTable(t, "error codes", 7)
	if diff := cmp.Diff(values(constants(t, "wire", ofType("Code"))), firstCells(rows)); diff != "" {
		t.Errorf("(-constants of wire +docs/codes.md)\n%s", diff)
	}
	yes := map[bool]string{true: "yes", false: "no"}
	for _, row := range rows {
		code := wire.Code(strings.Trim(row[0], "`"))
		closes := "–"
		for _, c := range wirespec.Closes() {
			if c.Code == socket.CloseCode(code) && slices.Contains(c.Errors, code) {
				closes = strconv.Itoa(int(c.Code))
			}
		}
		want := []string{row[0], strconv.Itoa(wirespec.Status(code)), closes, yes[wirespec.Fatal(code)], yes[code.Retryable()]}
		if diff := cmp.Diff(want, row[:5]); diff != "" {
			t.Errorf("%s (-code +docs/codes.md)\n%s", code, diff)
		}
	}
}

// TestReasonsPage compares the tables of reasons with core: every reason is in one of them, and nothing else.
func TestReasonsPage(t *testing.T) {
	t.Parallel()
	incapable, now, ends := codesTable(t, "incapable", 3), codesTable(t, "now", 3), codesTable(t, "ends", 5)
	documented := slices.Concat(firstCells(incapable), firstCells(now), firstCells(ends))
	slices.Sort(documented)
	if diff := cmp.Diff(values(constants(t, "internal/core", ofType("Reason"))), documented); diff != "" {
		t.Errorf("(-constants of core +docs/codes.md)\n%s", diff)
	}
	for _, name := range documented {
		if listed := slices.Contains(firstCells(incapable), name); listed != core.Reason(name).Incapable() {
			t.Errorf("%s is among the reasons that last: %v", name, listed)
		}
	}
	for _, row := range now {
		if soft := core.Reason(strings.Trim(row[0], "`")).Soft(); soft != strings.HasPrefix(row[1], "a preference") {
			t.Errorf("%s is a preference: %v", row[0], soft)
		}
	}
	for _, row := range ends {
		if !slices.Contains([]string{"an attempt", "a job", "both"}, row[1]) || !slices.Contains([]string{"yes", "no", "–"}, row[2]) {
			t.Errorf("%s ends %q and costs an attempt: %q", row[0], row[1], row[2])
		}
	}
}

// TestNodeReasonsPage compares the reasons that a node may give with those that package node gives, and with what the scheduler
// makes of them.
func TestNodeReasonsPage(t *testing.T) {
	t.Parallel()
	rows := codesTable(t, "node reasons", 3)
	given := constants(t, "node", func(name string, _ *ast.ValueSpec) bool { return strings.HasPrefix(name, "reason") })
	if diff := cmp.Diff(values(given), firstCells(rows)); diff != "" {
		t.Errorf("(-constants of node +docs/codes.md)\n%s", diff)
	}
	for _, row := range rows {
		name := strings.Trim(row[0], "`")
		reason, _ := convert.FailureReason(name)
		if ordinary := reason == core.ReasonNodeFailed; ordinary != strings.HasPrefix(row[2], "the same") && name != string(core.ReasonNodeFailed) {
			t.Errorf("%s counts as %s, and the page says that the scheduler %s", name, reason, row[2])
		}
	}
}

// TestWarningsPage compares the table of warnings with the code.
func TestWarningsPage(t *testing.T) {
	t.Parallel()
	if diff := cmp.Diff(values(constants(t, "wire", ofType("WarningCode"))), firstCells(codesTable(t, "warnings", 3))); diff != "" {
		t.Errorf("(-constants of wire +docs/codes.md)\n%s", diff)
	}
}

// TestCloseCodesPage compares the table of close codes with wirespec, from which the AsyncAPI description is made, and that with
// the constants.
func TestCloseCodesPage(t *testing.T) {
	t.Parallel()
	var want [][]string
	var listed []string
	for _, c := range wirespec.Closes() {
		listed = append(listed, strconv.Itoa(int(c.Code)))
		var names []string
		for _, e := range c.Errors {
			names = append(names, "`"+string(e)+"`")
		}
		want = append(want, []string{strconv.Itoa(int(c.Code)), strings.Join(names, ", "), c.Cause, c.Action})
	}
	if diff := cmp.Diff(want, codesTable(t, "close codes", 4)); diff != "" {
		t.Errorf("(-wirespec +docs/codes.md)\n%s", diff)
	}
	neverSent := []string{"1005", "1006"} // RFC 6455, section 7.4.1
	declared := slices.DeleteFunc(values(closeConstants(t)), func(code string) bool { return slices.Contains(neverSent, code) })
	slices.Sort(listed)
	if diff := cmp.Diff(declared, listed); diff != "" {
		t.Errorf("(-constants +wirespec)\n%s", diff)
	}
}

// closeConstants returns the close codes by the names of their constants.
func closeConstants(t *testing.T) map[string]string {
	t.Helper()
	all := constants(t, "wire", ofType("CloseCode"))
	for name, code := range constants(t, "internal/socket", ofType("CloseCode")) {
		all[name] = code
	}
	return all
}
