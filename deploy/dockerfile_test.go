package deploy_test

import (
	"bytes"
	"debug/elf"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// instruction is one of a Dockerfile, with the variables of its stage filled in.
type instruction struct {
	line  int
	name  string
	flags []string
	words []string
	whole string
}

// stage is what stands from one FROM to the next.
type stage struct {
	image, name string
	steps       []instruction
}

var (
	variable = regexp.MustCompile(`\$\{(\w+)\}`)
	known    = []string{"ARG", "FROM", "WORKDIR", "COPY", "RUN", "USER", "EXPOSE", "STOPSIGNAL", "ENTRYPOINT", "CMD", "HEALTHCHECK"}
)

// stages reads the Dockerfile. What it does not understand it refuses.
func stages() ([]stage, error) {
	body, err := os.ReadFile("Dockerfile")
	if err != nil {
		return nil, err
	}
	args := make(map[string]string)
	var all []stage
	for i, line := range strings.Split(string(body), "\n") {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		name, rest, _ := strings.Cut(line, " ")
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("Dockerfile:%d: do not know %q", i+1, name)
		}
		for _, v := range variable.FindAllStringSubmatch(rest, -1) {
			if _, ok := args[v[1]]; !ok {
				return nil, fmt.Errorf("Dockerfile:%d: %s is not set", i+1, v[0])
			}
		}
		rest = variable.ReplaceAllStringFunc(rest, func(v string) string { return args[v[2:len(v)-1]] })
		step := instruction{line: i + 1, name: name, whole: rest}
		for _, w := range strings.Fields(rest) {
			if strings.HasPrefix(w, "--") && len(step.words) == 0 {
				step.flags = append(step.flags, w)
			} else {
				step.words = append(step.words, w)
			}
		}
		switch {
		case name == "ARG":
			key, value, given := strings.Cut(rest, "=")
			if !given {
				return nil, fmt.Errorf("Dockerfile:%d: %s has no default", i+1, key)
			}
			args[key] = value
		case name == "FROM":
			s := stage{image: step.words[0]}
			if len(step.words) == 3 && step.words[1] == "AS" {
				s.name = step.words[2]
			}
			all = append(all, s)
		case len(all) == 0:
			return nil, fmt.Errorf("Dockerfile:%d: %s stands before the first FROM", i+1, name)
		default:
			s := &all[len(all)-1]
			s.steps = append(s.steps, step)
		}
	}
	if len(all) != 2 {
		return nil, fmt.Errorf("the Dockerfile has %d stages, want one that builds and one that runs", len(all))
	}
	return all, nil
}

func mustStages(t *testing.T) (build, final stage) {
	t.Helper()
	all, err := stages()
	if err != nil {
		t.Fatal(err)
	}
	return all[0], all[1]
}

// last is the last instruction of that name, which is the one that counts.
func (s stage) last(t *testing.T, name string) instruction {
	t.Helper()
	for _, step := range slices.Backward(s.steps) {
		if step.name == name {
			return step
		}
	}
	t.Fatalf("the stage of %s has no %s", s.image, name)
	return instruction{}
}

func TestImageIsBuiltWithTheGoOfTheModule(t *testing.T) {
	t.Parallel()
	build, _ := mustStages(t)
	module := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(text(t, "../go.mod"))
	if module == nil {
		t.Fatal("go.mod names no version of Go")
	}
	if want := "golang:" + module[1]; build.image != want {
		t.Errorf("it is built in %s, want %s as go.mod says", build.image, want)
	}
}

func TestFinalImageIsBareAndNotRoot(t *testing.T) {
	t.Parallel()
	build, final := mustStages(t)
	if final.image != "scratch" {
		t.Errorf("it is made from %s, which has more in it than the program needs", final.image)
	}
	user := final.last(t, "USER")
	uid, gid, _ := strings.Cut(user.whole, ":")
	for _, id := range []string{uid, gid} {
		if n, err := strconv.Atoi(id); err != nil || n == 0 {
			t.Errorf("USER %s: want numbers, and not those of root", user.whole)
		}
	}
	for _, name := range []string{"ENTRYPOINT", "CMD"} {
		var words []string
		if step := final.last(t, name); json.Unmarshal([]byte(step.whole), &words) != nil || len(words) == 0 {
			t.Errorf("%s %s: not in the form that needs no shell", name, step.whole)
		}
	}
	var brought []string
	for _, step := range final.steps {
		switch step.name {
		case "RUN":
			t.Errorf("line %d: there is nothing in scratch that could run this", step.line)
		case "COPY":
			if !slices.Contains(step.flags, "--from="+build.name) {
				t.Errorf("line %d copies from the context: everything in the image comes from the build", step.line)
			}
			brought = append(brought, step.words[len(step.words)-1])
		}
	}
	var entry []string
	if err := json.Unmarshal([]byte(final.last(t, "ENTRYPOINT").whole), &entry); err != nil || !slices.Contains(brought, entry[0]) {
		t.Errorf("ENTRYPOINT %v is not among what was copied: %v", entry, brought)
	}
}

// secretName is how something is called that does not belong into an image.
var secretName = regexp.MustCompile(`(?i)(token|password|secret|credential|_keys?\b)`)

func TestImageHoldsNoSecret(t *testing.T) {
	t.Parallel()
	all, err := stages()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		for _, step := range s.steps {
			if step.name == "COPY" && slices.Contains(step.words[:len(step.words)-1], ".") {
				t.Errorf("line %d copies whatever there is: name what is needed", step.line)
			}
			if secretName.MatchString(step.whole) {
				t.Errorf("line %d speaks of a secret: %s", step.line, step.whole)
			}
		}
	}
	ignored := ignore(t)
	for _, name := range []string{"deploy/secrets/lingua.toml", ".git/config", "bin/lingua", "internal/config/load_test.go", "deploy/compose.yaml"} {
		if !ignored(name) {
			t.Errorf("a build would see %s", name)
		}
	}
	for _, name := range []string{"go.mod", "go.sum", "cmd/lingua/main.go", "internal/store/redisstore/scripts/reserve.lua"} {
		if ignored(name) {
			t.Errorf("a build would not see %s", name)
		}
	}
}

// ignore reads Dockerfile.dockerignore: the last line that matches a path, or a directory above it, decides.
func ignore(t *testing.T) func(name string) bool {
	t.Helper()
	type rule struct {
		match *regexp.Regexp
		keep  bool
	}
	var rules []rule
	for line := range strings.Lines(text(t, "Dockerfile.dockerignore")) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		pattern, keep := strings.CutPrefix(line, "!")
		expr := strings.NewReplacer(`\*\*/`, `(.*/)?`, `\*`, `[^/]*`).Replace(regexp.QuoteMeta(pattern))
		rules = append(rules, rule{regexp.MustCompile("^" + expr + "$"), keep})
	}
	return func(name string) bool {
		out := false
		for _, r := range rules {
			for p := name; p != "."; p = path.Dir(p) {
				if r.match.MatchString(p) {
					out = !r.keep
					break
				}
			}
		}
		return out
	}
}

// built makes the binary as the Dockerfile does: from nothing but what it copies of what the build may see, by the very
// command it runs.
func built(t *testing.T) string {
	t.Helper()
	ignored := ignore(t)
	build, _ := mustStages(t)
	binary, err := once(func() (string, error) {
		src, out := filepath.Join(scratch, "src"), filepath.Join(scratch, "out")
		for _, step := range build.steps {
			switch {
			case step.name == "COPY":
				to := step.words[len(step.words)-1]
				for _, from := range step.words[:len(step.words)-1] {
					if err := bring(from, filepath.Join(src, to), strings.HasSuffix(to, "/"), ignored); err != nil {
						return "", fmt.Errorf("Dockerfile:%d: %w", step.line, err)
					}
				}
			case step.name == "RUN" && strings.Contains(step.whole, "go build"):
				line := strings.NewReplacer("/out/", out+"/", "main.release=0.1.0-dev", "main.release="+imageVersion).Replace(step.whole)
				cmd := exec.Command("sh", "-c", line)
				cmd.Dir = src
				if said, err := cmd.CombinedOutput(); err != nil {
					return "", fmt.Errorf("Dockerfile:%d: %w\n%s", step.line, err, said)
				}
			}
		}
		return filepath.Join(out, "lingua"), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

// imageVersion is what the build is told, which no other build says.
const imageVersion = "0.1.0-image"

var (
	buildOnce sync.Once
	buildPath string
	buildErr  error
)

// once builds for whoever asks first.
func once(build func() (string, error)) (string, error) {
	buildOnce.Do(func() { buildPath, buildErr = build() })
	return buildPath, buildErr
}

// bring copies a file or a directory of the repository as COPY does.
func bring(from, to string, into bool, ignored func(string) bool) error {
	root := os.DirFS("..")
	found := false
	err := fs.WalkDir(root, from, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || ignored(p) {
			return err
		}
		found = true
		target := filepath.Join(to, strings.TrimPrefix(p, from))
		if into && p == from {
			target = filepath.Join(to, path.Base(p))
		}
		body, err := fs.ReadFile(root, p)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		return os.WriteFile(target, body, 0o644)
	})
	if err == nil && !found {
		err = fmt.Errorf("COPY %s brings nothing", from)
	}
	return err
}

func TestImageBuildsAndIsStatic(t *testing.T) {
	t.Parallel()
	binary := built(t)
	program, err := elf.Open(binary)
	if err == nil { // elsewhere than on Linux it is no ELF
		defer program.Close()
		for _, part := range program.Progs {
			if part.Type == elf.PT_INTERP {
				t.Error("the binary wants an interpreter: in scratch there is none")
			}
		}
	}
	var out bytes.Buffer
	cmd := exec.CommandContext(t.Context(), binary, "version")
	cmd.Stdout = &out
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(out.String(), "lingua "+imageVersion+" ") {
		t.Errorf("it says %q: the version of the Dockerfile did not arrive", out.String())
	}
	if bytes.Contains(out.Bytes(), []byte("commit")) {
		t.Errorf("it says %q, as if it had seen the repository", out.String())
	}
}

func TestDockerfileLints(t *testing.T) {
	t.Parallel()
	tool(t, "hadolint", "Dockerfile")
}
