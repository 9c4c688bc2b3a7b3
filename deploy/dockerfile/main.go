// Command dockerfile prints a Dockerfile as JSON, parsed by BuildKit's own parser, or the files that a .dockerignore file
// excludes. It is a module of its own, so that the scheduler does not depend on BuildKit; the tests in deploy run it.
//
//	dockerfile parse < Dockerfile
//	dockerfile ignored Dockerfile.dockerignore < list-of-paths
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/moby/buildkit/frontend/dockerfile/shell"
	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"
)

// Instruction is one instruction of a Dockerfile, with the arguments of ARG before it filled in.
type Instruction struct {
	Line  int      `json:"line"`
	Name  string   `json:"name"` // in upper case
	Flags []string `json:"flags"`
	Args  []string `json:"args"`
	Exec  bool     `json:"exec"` // the arguments are a JSON array, which needs no shell
}

func main() {
	err := errors.New("usage: dockerfile parse | dockerfile ignored FILE")
	switch {
	case len(os.Args) == 2 && os.Args[1] == "parse":
		err = parse(os.Stdin, os.Stdout)
	case len(os.Args) == 3 && os.Args[1] == "ignored":
		err = printIgnored(os.Args[2], os.Stdin, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "dockerfile:", err)
		os.Exit(1)
	}
}

func parse(in io.Reader, out io.Writer) error {
	file, err := parser.Parse(in)
	if err != nil {
		return err
	}
	if len(file.Warnings) > 0 {
		return fmt.Errorf("warning: %s", file.Warnings[0].Short)
	}
	lex := shell.NewLex(file.EscapeToken)
	lex.RawQuotes, lex.RawEscapes = true, true // the shell of a RUN removes them
	var env []string
	instructions := []Instruction{}
	for _, node := range file.AST.Children {
		i := Instruction{Line: node.StartLine, Name: strings.ToUpper(node.Value), Flags: node.Flags, Exec: node.Attributes["json"]}
		for arg := node.Next; arg != nil; arg = arg.Next {
			expanded, err := lex.ProcessWordWithMatches(arg.Value, shell.EnvsFromSlice(env))
			if err != nil {
				return fmt.Errorf("line %d: %w", i.Line, err)
			}
			for name := range expanded.Unmatched {
				return fmt.Errorf("line %d: %s is not set", i.Line, name)
			}
			i.Args = append(i.Args, expanded.Result)
		}
		if i.Name == "ARG" {
			if !strings.Contains(i.Args[0], "=") {
				return fmt.Errorf("line %d: %s has no default", i.Line, i.Args[0])
			}
			env = append(env, i.Args...)
		}
		instructions = append(instructions, i)
	}
	return json.NewEncoder(out).Encode(instructions)
}

// printIgnored prints the paths that the file excludes from a build.
func printIgnored(name string, paths io.Reader, out io.Writer) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // opened for reading only
	patterns, err := ignorefile.ReadAll(file)
	if err != nil {
		return err
	}
	matcher, err := patternmatcher.New(patterns)
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(paths)
	for lines.Scan() {
		ignored, err := matcher.MatchesOrParentMatches(lines.Text())
		if err != nil {
			return err
		}
		if ignored {
			fmt.Fprintln(out, lines.Text())
		}
	}
	return lines.Err()
}
