package redisstore

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// scriptNames lists the scripts, without the libraries.
func scriptNames(t *testing.T) []string {
	t.Helper()
	files, err := scriptFiles.ReadDir("scripts")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, file := range files {
		if name := strings.TrimSuffix(file.Name(), ".lua"); !strings.HasPrefix(name, "lib") {
			names = append(names, name)
		}
	}
	return names
}

// TestScriptConstantsAreDefined: every name in capitals of a script is a constant of luaConstants, and every constant is used. An
// undefined name would be nil in Lua.
func TestScriptConstantsAreDefined(t *testing.T) {
	t.Parallel()
	used := make(map[string]bool)
	for _, name := range append(scriptNames(t), "lib", "lib_inbox", "lib_tenant", "lib_wait") {
		for _, token := range luaToken.FindAllString(scriptSource(name), -1) {
			switch _, defined := luaConstants[token]; {
			case strings.HasPrefix(token, "--"), strings.HasPrefix(token, "'"), token == "KEYS", token == "ARGV":
			case !defined:
				t.Errorf("%s.lua uses %s, which is not a constant", name, token)
			default:
				used[token] = true
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(luaConstants)) {
		if !used[name] {
			t.Errorf("no script uses the constant %s", name)
		}
	}
}

// TestScriptConstantsHaveOneSource: no script repeats the value of a constant as a literal.
func TestScriptConstantsHaveOneSource(t *testing.T) {
	t.Parallel()
	indexes := regexp.MustCompile(`(KEYS|ARGV)\[\d+\]`)
	literals := regexp.MustCompile(`\b(1704067200000|65536|65535|1048576|10000|1024|2000|1999|256|100|16)\b|'(inbox|takeover|at)'`)
	for _, name := range append(scriptNames(t), "lib", "lib_inbox", "lib_tenant", "lib_wait") {
		for i, line := range strings.Split(scriptSource(name), "\n") {
			code, _, _ := strings.Cut(line, "--")
			if found := literals.FindString(indexes.ReplaceAllString(code, "")); found != "" {
				t.Errorf("%s.lua:%d has the literal %s; use the constant", name, i+1, found)
			}
		}
	}
}

// TestScriptsHaveHeaders: a script begins with what it does, its KEYS, and what it returns; one that writes is given not_after.
func TestScriptsHaveHeaders(t *testing.T) {
	t.Parallel()
	for _, name := range scriptNames(t) {
		text := scriptSource(name)
		code := strings.Index(text, "\nlocal ")
		if code < 0 {
			code = strings.Index(text, "\nreturn ")
		}
		header := text[:code]
		for _, part := range []string{"-- KEYS  ", "-- Returns "} {
			if !strings.Contains(header, part) {
				t.Errorf("the header of %s.lua has no line %q", name, part)
			}
		}
		if !strings.Contains(header, "Writes nothing.") && !strings.Contains(header, "-- ARGV  not_after") {
			t.Errorf("%s.lua writes, and its header does not say that ARGV[1] is not_after", name)
		}
	}
}
