package repo_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// pages returns the Markdown files.
func pages(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/decisions/*.md", "examples/*.md", "examples/*/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, found...)
	}
	return all
}

var (
	heading    = regexp.MustCompile(`(?m)^#+ (.*)$`)
	noAnchor   = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	linkTarget = regexp.MustCompile(`\]\(([^)#: ]*)(?:#([^) ]*))?\)`)
)

// anchors returns the headings of a page, as links name them.
func anchors(page string) map[string]bool {
	all := make(map[string]bool)
	for _, m := range heading.FindAllStringSubmatch(page, -1) {
		plain := noAnchor.ReplaceAllString(strings.ToLower(m[1]), "")
		all[strings.ReplaceAll(plain, " ", "-")] = true
	}
	return all
}

// TestLinksHaveTargets checks that every relative link leads to a file that exists, and to a heading in it.
func TestLinksHaveTargets(t *testing.T) {
	t.Parallel()
	read := func(page string) string {
		body, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
	for _, page := range pages(t) {
		for _, m := range linkTarget.FindAllStringSubmatch(read(page), -1) {
			target := page
			if m[1] != "" {
				target = filepath.Join(filepath.Dir(page), m[1])
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s, which does not exist", page, m[1])
			} else if m[2] != "" && !anchors(read(target))[m[2]] {
				t.Errorf("%s links to #%s of %s, which has no such heading", page, m[2], target)
			}
		}
	}
}

// TestReadmesHaveTheSameCommands checks that both languages of the README have the same commands.
func TestReadmesHaveTheSameCommands(t *testing.T) {
	t.Parallel()
	fence := regexp.MustCompile("(?s)```(?:bash|sh)\n(.*?)```")
	commands := func(page string) []string {
		body, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, m := range fence.FindAllStringSubmatch(string(body), -1) {
			for line := range strings.Lines(m[1]) {
				if line = strings.TrimSpace(strings.SplitN(line, "  #", 2)[0]); line != "" && !strings.HasPrefix(line, "#") {
					all = append(all, line)
				}
			}
		}
		return all
	}
	if diff := cmp.Diff(commands("README.md"), commands("README.zh-CN.md")); diff != "" {
		t.Errorf("commands (-README.md +README.zh-CN.md):\n%s", diff)
	}
}

// TestEveryDecisionIsListed checks that every decision has a number, a title and a status, and that the list has it once, with that title.
func TestEveryDecisionIsListed(t *testing.T) {
	t.Parallel()
	index, err := os.ReadFile("docs/decisions/README.md")
	if err != nil {
		t.Fatal(err)
	}
	head := regexp.MustCompile(`^# (\d{4}) · (.+)\n\nStatus: (in force|in force; replaced in part by \[\d{4}\]\(\S+\)|replaced by \[\d{4}\]\(\S+\))\n\n`)
	for _, page := range pages(t) {
		dir, name := filepath.Split(page)
		if dir != "docs/decisions/" || name == "README.md" {
			continue
		}
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		m := head.FindStringSubmatch(string(text))
		if m == nil || !strings.HasPrefix(name, m[1]+"-") {
			t.Errorf("%s does not begin with its number, its title and a status", page)
			continue
		}
		line := fmt.Sprintf("- [%s](%s) %s", m[1], name, m[2])
		if part, replaced := strings.CutPrefix(m[3], "in force; "); replaced {
			line += " (" + part[:len("replaced in part")] + ")"
		} else if m[3] != "in force" {
			line += " (replaced)"
		}
		if strings.Count(string(index), "\n"+line+"\n") != 1 {
			t.Errorf("docs/decisions/README.md does not list it once: %s", line)
		}
	}
}

// TestTrackRecordNamesTests checks that the tests which docs/track-record.md names exist.
func TestTrackRecordNamesTests(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("docs/track-record.md")
	if err != nil {
		t.Fatal(err)
	}
	tests := make(map[string]bool)
	goFiles(t, func(file, _ string) {
		body, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllSubmatch(body, -1) {
			tests[string(m[1])] = true
		}
	})
	named := regexp.MustCompile("`(Test\\w+)`").FindAllSubmatch(page, -1)
	if len(named) < 10 {
		t.Errorf("only %d tests are named", len(named))
	}
	for _, m := range named {
		if !tests[string(m[1])] {
			t.Errorf("there is no %s", m[1])
		}
	}
}

// declarations returns the names that each package of the repository declares: Name, and Type.Member for methods and fields.
func declarations(t *testing.T) map[string]map[string]bool {
	t.Helper()
	all := make(map[string]map[string]bool)
	goFiles(t, func(file, dir string) {
		if strings.HasSuffix(file, "_test.go") {
			return
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		names := all[path.Base(dir)]
		if names == nil {
			names = make(map[string]bool)
			all[path.Base(dir)] = names
		}
		for _, d := range parsed.Decls {
			declare(names, d)
		}
	})
	return all
}

// declare adds the names of one declaration.
func declare(names map[string]bool, d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			names[d.Name.Name] = true
			return
		}
		receiver := d.Recv.List[0].Type
		if p, ok := receiver.(*ast.StarExpr); ok {
			receiver = p.X
		}
		if id, ok := receiver.(*ast.Ident); ok {
			names[id.Name+"."+d.Name.Name] = true
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.ValueSpec:
				for _, id := range spec.Names {
					names[id.Name] = true
				}
			case *ast.TypeSpec:
				names[spec.Name.Name] = true
				var members *ast.FieldList
				switch u := spec.Type.(type) {
				case *ast.StructType:
					members = u.Fields
				case *ast.InterfaceType:
					members = u.Methods
				default:
					continue
				}
				for _, m := range members.List {
					for _, id := range m.Names {
						names[spec.Name.Name+"."+id.Name] = true
					}
				}
			}
		}
	}
}

// TestPagesNameIdentifiersThatExist checks the identifiers in the architecture and the glossary, such as `store.Ledger.Reserve`.
func TestPagesNameIdentifiersThatExist(t *testing.T) {
	t.Parallel()
	declared := declarations(t)
	identifier := regexp.MustCompile("`([a-z]+)\\.([A-Za-z]+(?:\\.[A-Za-z]+)?)`")
	seen := 0
	for _, page := range []string{"docs/architecture.md", "docs/glossary.md"} {
		body, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range identifier.FindAllStringSubmatch(string(body), -1) {
			names, known := declared[m[1]]
			if !known || m[2] == "go" { // the name of a file
				continue
			}
			if seen++; !names[m[2]] {
				t.Errorf("%s names %s.%s, which does not exist", page, m[1], m[2])
			}
		}
	}
	if seen < 60 {
		t.Errorf("only %d identifiers were found", seen)
	}
}
