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

// instruction is one instruction of a Dockerfile, as deploy/dockerfile prints it.
type instruction struct {
	Line  int
	Name  string
	Flags []string
	Args  []string
	Exec  bool // the arguments are a JSON array, which needs no shell
}

// text returns the arguments as one string.
func (i instruction) text() string { return strings.Join(i.Args, " ") }

// sources and target are the arguments of a COPY.
func (i instruction) sources() []string { return i.Args[:len(i.Args)-1] }
func (i instruction) target() string    { return i.Args[len(i.Args)-1] }

// stage is a FROM with the instructions up to the next.
type stage struct {
	image, name  string
	instructions []instruction
}

// buildParser builds the program in deploy/dockerfile, which has BuildKit's parsers, once.
var buildParser = sync.OnceValues(func() (string, error) {
	binary := filepath.Join(scratch, "dockerfile")
	if out, err := exec.Command("go", "-C", "dockerfile", "build", "-mod=readonly", "-o", binary, ".").CombinedOutput(); err != nil {
		return "", fmt.Errorf("cannot build deploy/dockerfile: %w\n%s", err, out)
	}
	return binary, nil
})

// runParser runs the program in deploy/dockerfile.
func runParser(input string, args ...string) ([]byte, error) {
	binary, err := buildParser()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(binary, args...)
	cmd.Stdin = strings.NewReader(input)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, errs.String())
	}
	return out.Bytes(), nil
}

// parseDockerfile parses the Dockerfile into its stages, once.
var parseDockerfile = sync.OnceValues(func() ([]stage, error) {
	body, err := os.ReadFile("Dockerfile")
	if err != nil {
		return nil, err
	}
	parsed, err := runParser(string(body), "parse")
	if err != nil {
		return nil, err
	}
	var all []instruction
	if err := json.Unmarshal(parsed, &all); err != nil {
		return nil, err
	}
	var stages []stage
	for _, i := range all {
		switch {
		case i.Name == "FROM":
			s := stage{image: i.Args[0]}
			if len(i.Args) == 3 {
				s.name = i.Args[2]
			}
			stages = append(stages, s)
		case len(stages) > 0:
			s := &stages[len(stages)-1]
			s.instructions = append(s.instructions, i)
		}
	}
	if len(stages) != 2 {
		return nil, fmt.Errorf("the Dockerfile has %d stages, want one that builds and one that runs", len(stages))
	}
	return stages, nil
})

func stages(t *testing.T) (build, final stage) {
	t.Helper()
	skipShort(t)
	all, err := parseDockerfile()
	if err != nil {
		t.Fatal(err)
	}
	return all[0], all[1]
}

// last returns the last instruction of a name, which overrides the others.
func (s stage) last(t *testing.T, name string) instruction {
	t.Helper()
	for _, i := range slices.Backward(s.instructions) {
		if i.Name == name {
			return i
		}
	}
	t.Fatalf("the stage of %s has no %s", s.image, name)
	return instruction{}
}

func TestImageIsBuiltWithTheGoOfTheModule(t *testing.T) {
	t.Parallel()
	build, _ := stages(t)
	module := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(text(t, "../go.mod"))
	if module == nil {
		t.Fatal("go.mod names no version of Go")
	}
	if want := "golang:" + module[1]; build.image != want {
		t.Errorf("it is built in %s, want %s as in go.mod", build.image, want)
	}
}

func TestFinalImageIsMinimalAndNotRoot(t *testing.T) {
	t.Parallel()
	build, final := stages(t)
	if final.image != "scratch" {
		t.Errorf("it is made from %s, which contains more than the program needs", final.image)
	}
	user := final.last(t, "USER").text()
	uid, gid, _ := strings.Cut(user, ":")
	for _, id := range []string{uid, gid} {
		if n, err := strconv.Atoi(id); err != nil || n == 0 {
			t.Errorf("USER %s: want numbers, and not those of root", user)
		}
	}
	for _, name := range []string{"ENTRYPOINT", "CMD"} {
		if i := final.last(t, name); !i.Exec || len(i.Args) == 0 {
			t.Errorf("%s %s: not in the form that needs no shell", name, i.text())
		}
	}
	var copied []string
	for _, i := range final.instructions {
		switch i.Name {
		case "RUN":
			t.Errorf("line %d: there is nothing in scratch that could run this", i.Line)
		case "COPY":
			if !slices.Contains(i.Flags, "--from="+build.name) {
				t.Errorf("line %d copies from the context: everything in the image must come from the build", i.Line)
			}
			copied = append(copied, i.target())
		}
	}
	if entry := final.last(t, "ENTRYPOINT").Args; !slices.Contains(copied, entry[0]) {
		t.Errorf("ENTRYPOINT %v was not copied; copied are %v", entry, copied)
	}
}

// secretName matches names that do not belong into an image.
var secretName = regexp.MustCompile(`(?i)(token|password|secret|credential|_keys?\b)`)

func TestImageContainsNoSecret(t *testing.T) {
	t.Parallel()
	build, final := stages(t)
	for _, i := range slices.Concat(build.instructions, final.instructions) {
		if i.Name == "COPY" && slices.Contains(i.sources(), ".") {
			t.Errorf("line %d copies the whole context: name the directories", i.Line)
		}
		if secretName.MatchString(i.text()) {
			t.Errorf("line %d mentions a secret: %s", i.Line, i.text())
		}
	}
	excluded := []string{"deploy/secrets/lingua.toml", ".git/config", "bin/lingua", "internal/config/load_test.go", "deploy/compose.yaml"}
	included := []string{"go.mod", "go.sum", "cmd/lingua/main.go", "internal/store/redisstore/scripts/reserve.lua"}
	ignored, err := ignoredPaths(slices.Concat(excluded, included))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range excluded {
		if !ignored[name] {
			t.Errorf("%s is part of the build context", name)
		}
	}
	for _, name := range included {
		if ignored[name] {
			t.Errorf("%s is not part of the build context", name)
		}
	}
}

// ignoredPaths returns which of the paths Dockerfile.dockerignore excludes from the build context.
func ignoredPaths(paths []string) (map[string]bool, error) {
	out, err := runParser(strings.Join(paths, "\n"), "ignored", "Dockerfile.dockerignore")
	ignored := make(map[string]bool)
	for _, name := range strings.Fields(string(out)) {
		ignored[name] = true
	}
	return ignored, err
}

// imageVersion is the version that the tests pass to the build.
const imageVersion = "0.1.0-image"

// built returns the path of the binary, built as the Dockerfile does: from the files that it copies of the build context,
// with the command that it runs.
func built(t *testing.T) string {
	t.Helper()
	skipShort(t)
	binary, err := buildBinary()
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

var buildBinary = sync.OnceValues(func() (string, error) {
	all, err := parseDockerfile()
	if err != nil {
		return "", err
	}
	src, out := filepath.Join(scratch, "src"), filepath.Join(scratch, "out")
	for _, i := range all[0].instructions {
		switch {
		case i.Name == "COPY":
			for _, from := range i.sources() {
				if err := copyFromContext(from, filepath.Join(src, i.target()), strings.HasSuffix(i.target(), "/")); err != nil {
					return "", fmt.Errorf("Dockerfile:%d: %w", i.Line, err)
				}
			}
		case i.Name == "RUN" && strings.Contains(i.text(), "go build"):
			line := strings.NewReplacer("/out/", out+"/", "main.release=0.1.0-dev", "main.release="+imageVersion).Replace(i.text())
			cmd := exec.Command("sh", "-c", line)
			cmd.Dir = src
			if output, err := cmd.CombinedOutput(); err != nil {
				return "", fmt.Errorf("Dockerfile:%d: %w\n%s", i.Line, err, output)
			}
		}
	}
	return filepath.Join(out, "lingua"), nil
})

// copyFromContext copies a file or a directory of the build context as COPY does.
func copyFromContext(from, to string, intoDir bool) error {
	root := os.DirFS("..")
	var files []string
	err := fs.WalkDir(root, from, func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files = append(files, p)
		}
		return err
	})
	if err != nil {
		return err
	}
	ignored, err := ignoredPaths(files)
	if err != nil {
		return err
	}
	files = slices.DeleteFunc(files, func(p string) bool { return ignored[p] })
	if len(files) == 0 {
		return fmt.Errorf("COPY %s copies nothing", from)
	}
	for _, p := range files {
		target := filepath.Join(to, strings.TrimPrefix(p, from))
		if intoDir && p == from {
			target = filepath.Join(to, path.Base(p))
		}
		body, err := fs.ReadFile(root, p)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(target, body, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func TestImageBuildsAndIsStatic(t *testing.T) {
	t.Parallel()
	binary := built(t)
	program, err := elf.Open(binary)
	if err == nil { // only on Linux it is an ELF file
		defer program.Close()
		for _, part := range program.Progs {
			if part.Type == elf.PT_INTERP {
				t.Error("the binary is not static: there is no interpreter in scratch")
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
		t.Errorf("it prints %q: the version of the Dockerfile is missing", out.String())
	}
	if bytes.Contains(out.Bytes(), []byte("commit")) {
		t.Errorf("it prints %q: it was built with the repository", out.String())
	}
}

func TestDockerfileLints(t *testing.T) {
	t.Parallel()
	tool(t, "hadolint", "Dockerfile")
}
