package lingua_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/core"
)

// TestStateMachinePageMatchesTheTable compares docs/state-machine.md with core.
func TestStateMachinePageMatchesTheTable(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("docs/state-machine.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented []string
	for _, row := range regexp.MustCompile(`(?m)^\| ([A-Z]+) \| ([a-z]+) \| ([A-Z]+) \|$`).FindAllStringSubmatch(string(page), -1) {
		documented = append(documented, strings.Join(row[1:], " "))
	}
	var inCode []string
	for s := range core.States() {
		for e := range core.Events() {
			if to, ok := s.Next(e); ok {
				inCode = append(inCode, fmt.Sprintf("%s %s %s", s, e, to))
			}
		}
	}
	slices.Sort(documented)
	slices.Sort(inCode)
	if diff := cmp.Diff(inCode, documented); diff != "" {
		t.Errorf("docs/state-machine.md (-code +page):\n%s", diff)
	}
}

// TestConfigurationPageMatchesTheReference compares docs/configuration.md with `lingua config reference`.
func TestConfigurationPageMatchesTheReference(t *testing.T) {
	t.Parallel()
	var reference bytes.Buffer
	if err := config.WriteReference(&reference); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), "```toml\n"+reference.String()+"```") {
		t.Errorf("docs/configuration.md differs from `lingua config reference`; paste its output:\n%s", reference.String())
	}
}

// pages returns the Markdown files.
func pages(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/decisions/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, found...)
	}
	return all
}

func TestLinksHaveTargets(t *testing.T) {
	t.Parallel()
	link := regexp.MustCompile(`\]\(([^)#: ]+)(#[^)]*)?\)`)
	for _, page := range pages(t) {
		body, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(body), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), m[1])); err != nil {
				t.Errorf("%s links to %s, which does not exist", page, m[1])
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

func TestEveryDecisionIsListed(t *testing.T) {
	t.Parallel()
	index, err := os.ReadFile("docs/decisions/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages(t) {
		dir, name := filepath.Split(page)
		if dir == "docs/decisions/" && name != "README.md" && !strings.Contains(string(index), "("+name+")") {
			t.Errorf("docs/decisions/README.md does not list %s", name)
		}
	}
}
