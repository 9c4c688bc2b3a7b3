package lingua_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The limits of the code. A type or a function beyond them does more than one thing.
const (
	maxMethods       = 35
	maxFields        = 25
	maxFunctionLines = 80
)

// largeTypes may exceed the limits: a store implements every interface of package store.
var largeTypes = map[string]bool{
	"internal/store/memstore.Store":   true,
	"internal/store/redisstore.Store": true,
}

// TestTypesAreSmall checks the number of methods and fields of every type outside tests.
func TestTypesAreSmall(t *testing.T) {
	t.Parallel()
	fset := token.NewFileSet()
	methods, fields := make(map[string]int), make(map[string]int)
	goFiles(t, func(file, dir string) {
		if strings.HasSuffix(file, "_test.go") {
			return
		}
		parsed, err := parser.ParseFile(fset, file, nil, 0)
		if err != nil {
			t.Error(err)
			return
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if name := receiverName(n); name != "" {
					methods[dir+"."+name]++
				}
			case *ast.TypeSpec:
				if s, ok := n.Type.(*ast.StructType); ok {
					fields[dir+"."+n.Name.Name] = s.Fields.NumFields()
				}
			}
			return true
		})
	})
	for name, n := range methods {
		if n > maxMethods && !largeTypes[name] {
			t.Errorf("%s has %d methods, more than %d: split it along what changes together", name, n, maxMethods)
		}
	}
	for name, n := range fields {
		if n > maxFields && !largeTypes[name] {
			t.Errorf("%s has %d fields, more than %d: split it along what changes together", name, n, maxFields)
		}
	}
}

// receiverName returns the type of the receiver of a method; empty for a function.
func receiverName(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	expr := f.Recv.List[0].Type
	for {
		switch e := expr.(type) {
		case *ast.StarExpr:
			expr = e.X
		case *ast.IndexExpr:
			expr = e.X
		case *ast.IndexListExpr:
			expr = e.X
		case *ast.Ident:
			return e.Name
		default:
			return ""
		}
	}
}

// TestFunctionsAreShort checks the length of every function. Composite literals, which are the tables of table-driven tests
// and of declarations, count as one line.
func TestFunctionsAreShort(t *testing.T) {
	t.Parallel()
	fset := token.NewFileSet()
	goFiles(t, func(file, _ string) {
		parsed, err := parser.ParseFile(fset, file, nil, 0)
		if err != nil {
			t.Error(err)
			return
		}
		for _, decl := range parsed.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Body == nil {
				continue
			}
			if n := linesWithoutTables(fset, f); n > maxFunctionLines {
				t.Errorf("%s has %d lines without its tables, more than %d", fset.Position(f.Pos()), n, maxFunctionLines)
			}
		}
	})
}

// linesWithoutTables returns the number of lines of a function between its braces, with each outermost composite literal
// as one line.
func linesWithoutTables(fset *token.FileSet, f *ast.FuncDecl) int {
	line := func(p token.Pos) int { return fset.Position(p).Line }
	lines := max(line(f.Body.Rbrace)-line(f.Body.Lbrace)-1, 1)
	ast.Inspect(f.Body, func(n ast.Node) bool {
		literal, ok := n.(*ast.CompositeLit)
		if ok {
			lines -= line(literal.End()) - line(literal.Pos())
		}
		return !ok
	})
	return lines
}

// Words of an earlier vocabulary. docs/glossary.md has the terms to use.
var (
	bannedWord = regexp.MustCompile(`(?i)\b(letters?|estates?|bereaved|bury|buried|condemn|hush|haunted|shun|embark|whoever|sounds?)\b`)
	allowedUse = regexp.MustCompile(`(?i)dead[ _-]letters?\b`)
	// character is the use of "letter" for a character.
	character = regexp.MustCompile(`(?i)\b(\d+ letters, digits|single[- ]letters?)\b`)
)

// TestVocabulary checks that Go and Lua files do not use words that the glossary has replaced.
func TestVocabulary(t *testing.T) {
	t.Parallel()
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == "bin" || d.Name() == "node_modules" || strings.HasPrefix(d.Name(), ".") && file != "."):
			return filepath.SkipDir
		case d.IsDir(), filepath.Ext(file) != ".go" && filepath.Ext(file) != ".lua", file == "limits_test.go":
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		number := 0
		for line := range strings.Lines(string(text)) {
			number++
			rest := character.ReplaceAllString(allowedUse.ReplaceAllString(line, ""), "")
			if word := bannedWord.FindString(rest); word != "" {
				t.Errorf("%s:%d: %q is not a term of docs/glossary.md: %s", file, number, word, strings.TrimSpace(line))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
