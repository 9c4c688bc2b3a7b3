package repo_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestTrackedFilesAreTextAndSmall checks that no binary is tracked, except test data and the pictures of the documentation.
func TestTrackedFilesAreTextAndSmall(t *testing.T) {
	t.Parallel()
	const maxBytes = 1 << 20
	tracked, err := exec.CommandContext(t.Context(), "git", "ls-files", "-z").Output()
	if err != nil {
		t.Logf("not a git checkout: %v", err)
		return
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(tracked), "\x00"), "\x00") {
		body, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed in the working tree
		}
		if err != nil {
			t.Error(err)
		}
		picture, _ := filepath.Match("docs/images/*.png", name)
		binary := bytes.ContainsRune(body[:min(len(body), 8000)], 0) && !strings.Contains(name, "/testdata/") && !picture
		if len(body) > maxBytes || binary {
			t.Errorf("%s is %d bytes, or not text", name, len(body))
		}
	}
}

// TestRetryTimesAreSetTogether checks that errors set their retry time in seconds and milliseconds with wire.Error.RetryIn.
func TestRetryTimesAreSetTogether(t *testing.T) {
	t.Parallel()
	set := regexp.MustCompile(`\bRetryAfter(MS)?( =|:) `)
	goFiles(t, func(file, dir string) {
		if dir == "wire" || strings.HasSuffix(file, "_test.go") {
			return
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if set.Match(text) {
			t.Errorf("%s sets RetryAfter directly: use wire.Error.RetryIn", file)
		}
	})
}

// Words of an earlier vocabulary. docs/glossary.md has the terms to use.
var (
	bannedStems = []string{"letter", "estate", "bereaved", "bury", "buried", "condemn", "hush", "haunted", "shun", "embark", "whoever", "sound"}
	bannedWord  = regexp.MustCompile(`(?i)\b(` + strings.Join(bannedStems, "|") + `)s?\b`)
	allowedUse  = regexp.MustCompile(`(?i)dead[ _-]letters?\b`)
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
		case d.IsDir(), filepath.Ext(file) != ".go" && filepath.Ext(file) != ".lua", file == filepath.FromSlash("test/repo/files_test.go"):
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		number := 0
		for line := range strings.Lines(string(text)) {
			number++
			lower := strings.ToLower(line)
			if !slices.ContainsFunc(bannedStems, func(stem string) bool { return strings.Contains(lower, stem) }) {
				continue // without the cost of an expression
			}
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
