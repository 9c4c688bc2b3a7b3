package repo_test

import (
	"bytes"
	"flag"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/convert"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/socket"
	"github.com/lingua-scheduler/lingua/internal/wirespec"
	"github.com/lingua-scheduler/lingua/test/docpage"
	"github.com/lingua-scheduler/lingua/test/sources"
)

var update = flag.Bool("update", false, "write the tables of the pages again")

// table is a table of a page whose rows follow from the program. The cells that the program does not know are prose and live in the page only.
type table struct {
	page, name string
	// rows returns the rows, in which the cells that the program does not know are prose. It is given the rows of the page, by their first cell.
	rows func(t *testing.T, documented map[string][]string) [][]string
}

// prose is a cell that somebody has to write.
const prose = "(to be written)"

var tables = []table{
	{"docs/codes.md", "error codes", errorCodes},
	{"docs/codes.md", "incapable", incapableReasons},
	{"docs/codes.md", "ends", endReasons},
	{"docs/codes.md", "now", currentReasons},
	{"docs/codes.md", "node reasons", nodeReasons},
	{"docs/codes.md", "warnings", warnings},
	{"docs/codes.md", "close codes", closeCodes},
	{"docs/state-machine.md", "transitions", transitions},
}

// TestTablesAreGenerated checks that the tables of the pages have what the program says. After a change -update writes them again; a new row
// has cells then that are to be written.
func TestTablesAreGenerated(t *testing.T) { //nolint:paralleltest // tables share pages
	for _, tab := range tables {
		page := readPage(t, tab.page)
		rows := page.Table(tab.name)
		if len(rows) == 0 {
			t.Fatalf("%s has no table %q", tab.page, tab.name)
		}
		documented := make(map[string][]string)
		for _, row := range rows {
			documented[row[0]] = row
		}
		generated := merge(tab.rows(t, documented), rows)
		checkPage(t, page, page.ReplaceTable(tab.name, generated))
		for _, row := range generated {
			if slices.Contains(row, prose) {
				t.Errorf("%s: a cell of %s is to be written", tab.page, row[0])
			}
		}
	}
}

// TestConfigurationReferenceIsGenerated checks that docs/configuration.md has what `lingua config reference` prints.
func TestConfigurationReferenceIsGenerated(t *testing.T) {
	t.Parallel()
	var reference bytes.Buffer
	if err := config.WriteReference(&reference); err != nil {
		t.Fatal(err)
	}
	page := readPage(t, "docs/configuration.md")
	generated, found := page.ReplaceBlock("toml reference", reference.String())
	if !found {
		t.Fatal("the page has no block with the reference")
	}
	checkPage(t, page, generated)
}

func readPage(t *testing.T, name string) *docpage.Page {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return &docpage.Page{Path: name, Text: string(text)}
}

// checkPage compares a page with what it should be, or writes that.
func checkPage(t *testing.T, page *docpage.Page, generated docpage.Page) {
	t.Helper()
	if page.Text == generated.Text {
		return
	}
	if !*update {
		t.Errorf("%s differs from the program; write it again with go test ./test/repo -update (-page +program)\n%s", page.Path,
			cmp.Diff(strings.Split(page.Text, "\n"), strings.Split(generated.Text, "\n")))
		return
	}
	if err := os.WriteFile(page.Path, []byte(generated.Text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// merge takes the prose of rows from those of the page, by their first cell. Rows with prose stay where they are in the page, and new ones come
// after them; a table without prose has the order of the program.
func merge(rows, documented [][]string) [][]string {
	place := make(map[string]int)
	for i, row := range documented {
		place[row[0]] = i
	}
	kept := false
	for _, row := range rows {
		at, known := place[row[0]]
		for i := range row {
			if row[i] == prose && known && i < len(documented[at]) {
				row[i], kept = documented[at][i], true
			}
		}
	}
	if kept {
		last := func(row []string) int {
			if at, known := place[row[0]]; known {
				return at
			}
			return len(documented)
		}
		slices.SortStableFunc(rows, func(a, b []string) int { return last(a) - last(b) })
	}
	return rows
}

// namesIn returns what the group of a pattern matches in the Go files of a directory, without their tests.
func namesIn(t *testing.T, dir, pattern string) []string {
	t.Helper()
	names, err := sources.Names(dir, pattern)
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func code(name string) string { return "`" + name + "`" }

func errorCodes(*testing.T, map[string][]string) (rows [][]string) {
	yes := map[bool]string{true: "yes", false: "no"}
	for _, c := range wirespec.Codes() {
		closes := "–"
		for _, known := range wirespec.Closes() {
			if known.Code == socket.CloseCode(c) && slices.Contains(known.Errors, c) {
				closes = strconv.Itoa(int(known.Code))
			}
		}
		rows = append(rows, []string{
			code(string(c)), strconv.Itoa(wirespec.Status(c)), closes, yes[wirespec.Fatal(c)], yes[c.Retryable()], prose, prose,
		})
	}
	return rows
}

// reasons returns the reasons of core.
func reasons(t *testing.T) (all []core.Reason) {
	t.Helper()
	for _, name := range namesIn(t, "internal/core", `\bReason += "(\w+)"`) {
		all = append(all, core.Reason(name))
	}
	return all
}

func incapableReasons(t *testing.T, _ map[string][]string) (rows [][]string) {
	t.Helper()
	for _, r := range reasons(t) {
		if r.Incapable() {
			rows = append(rows, []string{code(string(r)), prose, prose})
		}
	}
	return rows
}

// endReasons are the reasons that the table has already. A new one is among those of the moment, until somebody moves it here.
func endReasons(t *testing.T, documented map[string][]string) (rows [][]string) {
	t.Helper()
	for _, r := range reasons(t) {
		row := documented[code(string(r))]
		if row == nil || r.Incapable() {
			continue
		}
		costs := "yes"
		if row[1] == "a job" {
			costs = "–"
		} else if r.CostsNoAttempt() {
			costs = "no"
		}
		rows = append(rows, []string{code(string(r)), prose, costs, prose, prose})
	}
	return rows
}

func currentReasons(t *testing.T, _ map[string][]string) (rows [][]string) {
	t.Helper()
	var others []string
	for _, row := range readPage(t, "docs/codes.md").Table("ends") {
		others = append(others, row[0])
	}
	for _, r := range reasons(t) {
		if name := code(string(r)); !r.Incapable() && !slices.Contains(others, name) {
			rows = append(rows, []string{name, prose, prose})
		}
	}
	return rows
}

func nodeReasons(t *testing.T, _ map[string][]string) (rows [][]string) {
	t.Helper()
	for _, name := range namesIn(t, "node", `\breason\w+ += "(\w+)"`) {
		rows = append(rows, []string{code(name), prose, prose})
	}
	return rows
}

func warnings(t *testing.T, _ map[string][]string) (rows [][]string) {
	t.Helper()
	for _, name := range namesIn(t, "wire", `\bWarningCode += "(\w+)"`) {
		rows = append(rows, []string{code(name), prose, prose})
	}
	return rows
}

// closeCodes is the table of wirespec, from which the AsyncAPI description is made.
func closeCodes(t *testing.T, _ map[string][]string) (rows [][]string) {
	t.Helper()
	for _, c := range wirespec.Closes() {
		var names []string
		for _, e := range c.Errors {
			names = append(names, code(string(e)))
		}
		rows = append(rows, []string{strconv.Itoa(int(c.Code)), strings.Join(names, ", "), c.Cause, c.Action})
	}
	return rows
}

func transitions(*testing.T, map[string][]string) (rows [][]string) {
	for s := range core.States() {
		for e := range core.Events() {
			if to, ok := s.Next(e); ok {
				rows = append(rows, []string{s.String(), e.String(), to.String()})
			}
		}
	}
	return rows
}

// TestCloseCodesAreListed checks that wirespec lists every close code that has a constant, apart from two that are never sent (RFC 6455, section
// 7.4.1).
func TestCloseCodesAreListed(t *testing.T) {
	t.Parallel()
	declared := append(namesIn(t, "wire", `\bCloseCode += (\d+)`), namesIn(t, "internal/socket", `\bCloseCode += (\d+)`)...)
	listed := []string{"1005", "1006"}
	for _, c := range wirespec.Closes() {
		listed = append(listed, strconv.Itoa(int(c.Code)))
	}
	slices.Sort(declared)
	slices.Sort(listed)
	if diff := cmp.Diff(declared, listed); diff != "" {
		t.Errorf("(-constants +wirespec)\n%s", diff)
	}
}

// TestReasonsPage checks what the prose of the tables of reasons says: which are preferences, and what the scheduler does with those of nodes.
func TestReasonsPage(t *testing.T) {
	t.Parallel()
	page := readPage(t, "docs/codes.md")
	for _, row := range page.Table("now") {
		if soft := core.Reason(strings.Trim(row[0], "`")).Soft(); soft != strings.HasPrefix(row[1], "a preference") {
			t.Errorf("%s is a preference: %v", row[0], soft)
		}
	}
	for _, row := range page.Table("ends") {
		if !slices.Contains([]string{"an attempt", "a job", "both"}, row[1]) {
			t.Errorf("%s ends %q", row[0], row[1])
		}
	}
	for _, row := range page.Table("node reasons") {
		name := strings.Trim(row[0], "`")
		reason, _ := convert.FailureReason(name)
		if ordinary := reason == core.ReasonNodeFailed; ordinary != strings.HasPrefix(row[2], "the same") && name != string(core.ReasonNodeFailed) {
			t.Errorf("%s counts as %s, and the page says that the scheduler %s", name, reason, row[2])
		}
	}
}
