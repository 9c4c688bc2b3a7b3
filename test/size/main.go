// Command size prints how large the program is: lines of Go, methods of the largest types, folders, long lines. It fails if a type has more
// methods than this file allows. Methods of embedded fields count, because a reader of a call has to find it.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	module     = "github.com/lingua-scheduler/lingua"
	maxColumns = 140
	tabWidth   = 4
	listed     = 10 // types
)

// maxMethods are the limits of types.
var maxMethods = map[string]int{module + "/internal/dispatch.Dispatcher": 40}

// core are the packages of which a job's way through the scheduler is made.
var core = []string{
	"core", "store", "store/fairqueue", "store/memstore", "store/redisstore", "fleet", "pick", "pools", "waiting", "tenants", "dispatch",
	"nodes", "nodeconn", "session", "audio", "socket", "bus", "convert",
}

// tag is a struct tag, which cannot be broken.
var tag = regexp.MustCompile("`\\w+:\".*`")

// pkg is a package as go list describes it.
type pkg struct {
	ImportPath string
	Dir        string
	Export     string
	GoFiles    []string
	ImportMap  map[string]string
}

func main() {
	if err := measure(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func measure() error {
	pkgs, err := list()
	if err != nil {
		return err
	}
	exports := make(map[string]string, len(pkgs))
	var ours []pkg
	for _, p := range pkgs {
		exports[p.ImportPath] = p.Export
		if p.ImportPath == module || strings.HasPrefix(p.ImportPath, module+"/") {
			ours = append(ours, p)
		}
	}
	product, inCore, long, tags, err := countLines(ours)
	if err != nil {
		return err
	}
	folders, err := os.ReadDir("internal")
	if err != nil {
		return err
	}
	sizes, err := typeSizes(ours, exports)
	if err != nil {
		return err
	}
	seam := sizes[module+"/internal/store.Store"]
	fmt.Printf("lines of Go in the program: %d, of these %d in core packages\n", product, inCore)
	fmt.Printf("lines over %d columns: %d, and %d with a struct tag\n", maxColumns, long, tags)
	fmt.Printf("folders in internal: %d\n", len(folders))
	fmt.Printf("methods of store.Store: %d\n", seam)
	fmt.Println("types with the most methods, those of embedded fields included:")
	names := make([]string, 0, len(sizes))
	for name := range sizes {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(sizes[b], sizes[a]), cmp.Compare(a, b)) })
	for _, name := range names[:min(listed, len(names))] {
		fmt.Printf("%5d  %s\n", sizes[name], strings.TrimPrefix(name, module+"/"))
	}
	var failures []error
	for name, limit := range maxMethods {
		if sizes[name] > limit {
			failures = append(failures, fmt.Errorf("%s has %d methods, want at most %d: give a part of it a type of its own, as a named "+
				"field",
				name, sizes[name], limit))
		}
	}
	return errors.Join(failures...)
}

// list returns all packages that the program is linked from.
func list() ([]pkg, error) {
	var stderr bytes.Buffer
	//nolint:forbidigo // it ends by itself
	cmd := exec.CommandContext(context.Background(), "go", "list", "-deps", "-export", "-json=ImportPath,Dir,Export,GoFiles,ImportMap",
		"./cmd/lingua")
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w: %s", err, &stderr)
	}
	var pkgs []pkg
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs, nil
		} else if err != nil {
			return nil, err
		}
		pkgs = append(pkgs, p)
	}
}

// countLines counts lines, and those that are too long: without and with a struct tag.
func countLines(pkgs []pkg) (all, inCore, long, tags int, err error) {
	for _, p := range pkgs {
		name := strings.TrimPrefix(p.ImportPath, module+"/internal/")
		for _, file := range p.GoFiles {
			text, err := os.ReadFile(filepath.Join(p.Dir, file))
			if err != nil {
				return 0, 0, 0, 0, err
			}
			n := bytes.Count(text, []byte("\n"))
			all += n
			if slices.Contains(core, name) {
				inCore += n
			}
			for line := range strings.Lines(string(text)) {
				columns := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) + (tabWidth-1)*strings.Count(line, "\t")
				switch {
				case columns <= maxColumns:
				case tag.MatchString(line):
					tags++
				default:
					long++
				}
			}
		}
	}
	return all, inCore, long, tags, nil
}

// typeSizes returns the number of methods of each type that this module declares.
func typeSizes(pkgs []pkg, exports map[string]string) (map[string]int, error) {
	fset := token.NewFileSet()
	sizes := make(map[string]int)
	for _, p := range pkgs {
		var files []*ast.File
		for _, file := range p.GoFiles {
			parsed, err := parser.ParseFile(fset, filepath.Join(p.Dir, file), nil, parser.SkipObjectResolution)
			if err != nil {
				return nil, err
			}
			files = append(files, parsed)
		}
		imports := importer.ForCompiler(fset, "gc",
			func(path string) (io.ReadCloser, error) { return os.Open(exports[cmp.Or(p.ImportMap[path], path)]) })
		checked, err := (&types.Config{Importer: imports, IgnoreFuncBodies: true}).Check(p.ImportPath, fset, files, nil)
		if err != nil {
			return nil, err
		}
		for _, name := range checked.Scope().Names() {
			object, isType := checked.Scope().Lookup(name).(*types.TypeName)
			if !isType {
				continue
			}
			of := object.Type()
			if !types.IsInterface(of) {
				of = types.NewPointer(of)
			}
			sizes[p.ImportPath+"."+name] = types.NewMethodSet(of).Len()
		}
	}
	return sizes, nil
}
