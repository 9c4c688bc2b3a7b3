package repo_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/test/docpage"
	"github.com/lingua-scheduler/lingua/test/redistest"
)

func loadDocs(t *testing.T) []docpage.Page {
	t.Helper()
	all, err := docpage.Load(".")
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestBlocksAreChecked checks that every block is of a kind that a test checks.
//
//	bash        the commands: here, in cmd/lingua (lingua) and in internal/server (curl)
//	json        in internal/server
//	toml        here
//	python      in test/interop
//	text        transcripts, terminals and bytes are recorded in test/transcripts; otherwise a drawing
//	mermaid     a drawing
func TestBlocksAreChecked(t *testing.T) {
	t.Parallel()
	object := regexp.MustCompile(`(?m)^\s*(→ |← )?\{"`)
	for _, page := range loadDocs(t) {
		for _, b := range page.Blocks() {
			switch b.Language() {
			case "bash", "json", "toml", "python", "mermaid":
			case "text", "":
				recorded := b.TranscriptName() != "" || strings.HasPrefix(b.About(), "bytes ") || strings.HasPrefix(b.About(), "terminal ")
				if !recorded && object.MatchString(b.Body) {
					t.Errorf("%s:%d has JSON that no test checks", b.Page, b.Line)
				}
			default:
				t.Errorf("%s:%d is in %s, which no test checks", b.Page, b.Line, b.Language())
			}
		}
		outside := page.Text
		for _, b := range page.Blocks() {
			outside = strings.Replace(outside, b.Body, "", 1)
		}
		if found := regexp.MustCompile(`(?m)^ {4,}\{.*$`).FindString(outside); found != "" {
			t.Errorf("%s: put JSON into a block: %s", page.Path, found)
		}
	}
}

var secretFile = regexp.MustCompile(`secret_file = "(/[^"]+)"`)

// TestTOMLInDocs loads every block of TOML as a configuration.
func TestTOMLInDocs(t *testing.T) {
	t.Parallel()
	seen := 0
	for _, page := range loadDocs(t) {
		for _, b := range page.Blocks() {
			if b.Language() != "toml" {
				continue
			}
			seen++
			dir := t.TempDir()
			file := filepath.Join(dir, "lingua.toml")
			// The files with secrets that a page names exist on the reader's machine.
			body := secretFile.ReplaceAllStringFunc(b.Body, func(line string) string {
				name := filepath.Join(dir, filepath.Base(secretFile.FindStringSubmatch(line)[1]))
				if err := os.WriteFile(name, []byte(strings.Repeat("secret", 8)), 0o600); err != nil {
					t.Fatal(err)
				}
				return fmt.Sprintf("secret_file = %q", name)
			})
			if err := os.WriteFile(file, []byte(body), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, _, err := config.Load(file, nil).Validate(); err != nil {
				t.Errorf("%s:%d: %v", b.Page, b.Line, err)
			}
		}
	}
	if seen == 0 {
		t.Error("no configuration was found")
	}
}

// shellCommand is a command of a page.
type shellCommand struct {
	page  string
	line  string
	words []string // up to the first pipe
}

// shellCommands returns the commands of the pages by program.
func shellCommands(t *testing.T) map[string][]shellCommand {
	t.Helper()
	byProgram := make(map[string][]shellCommand)
	for _, page := range loadDocs(t) {
		var lines []string
		for _, b := range page.Blocks() {
			lines = append(lines, b.Commands()...)
		}
		for _, s := range page.Spans() {
			if strings.HasPrefix(s.Text, "make ") {
				lines = append(lines, s.Text)
			}
		}
		for _, line := range lines {
			command, _, _ := strings.Cut(line, " | ")
			words := docpage.Words(command)
			byProgram[words[0]] = append(byProgram[words[0]], shellCommand{page.Path, line, words})
		}
	}
	return byProgram
}

// checkCommands checks the commands of one program.
func checkCommands(t *testing.T, commands []shellCommand, check func(*testing.T, []string) error) {
	t.Helper()
	if len(commands) == 0 {
		t.Error("there are none")
	}
	for _, c := range commands {
		if err := check(t, c.words[1:]); err != nil {
			t.Errorf("%s: %s: %v", c.page, c.line, err)
		}
	}
}

// TestShellCommandsInDocs checks the commands of the pages by their program. The commands of lingua and curl are checked
// elsewhere.
func TestShellCommandsInDocs(t *testing.T) {
	t.Parallel()
	commands := shellCommands(t)
	for program, check := range map[string]func(*testing.T, []string) error{
		"make": checkMake, "go": checkGo, "systemctl": checkUnit, "journalctl": checkUnit, "docker": checkCompose,
	} {
		t.Run(program, func(t *testing.T) { checkCommands(t, commands[program], check) })
		delete(commands, program)
	}
	elsewhere := []string{"lingua", "curl", "export", "(set", "redis-cli"}
	for program, list := range commands {
		switch {
		case strings.Contains(program, "/"):
			if info, err := os.Stat(program); err != nil || info.Mode()&0o111 == 0 {
				t.Errorf("%s: %s: no program %s", list[0].page, list[0].line, program)
			}
		case !slices.Contains(elsewhere, program):
			t.Errorf("%s: %s: no test checks commands of %s", list[0].page, list[0].line, program)
		}
	}
}

// TestRedisCommandsInDocs runs the commands of redis-cli on a server.
func TestRedisCommandsInDocs(t *testing.T) {
	t.Parallel()
	checkCommands(t, shellCommands(t)["redis-cli"], redisChecker(t))
}

// checkMake checks that a target exists.
func checkMake(t *testing.T, args []string) error {
	t.Helper()
	makefile, err := os.ReadFile("Makefile")
	if err != nil {
		return err
	}
	if len(args) == 0 || !strings.Contains(string(makefile), "\n"+args[0]+":") {
		return fmt.Errorf("there is no target %q", args)
	}
	return nil
}

// checkGo checks that a package and the tests in it that a `go test` runs exist.
func checkGo(t *testing.T, args []string) error {
	t.Helper()
	dir, run := "", ""
	for i, arg := range args {
		if strings.HasPrefix(arg, "./") {
			dir = arg
		}
		if arg == "-run" && i+1 < len(args) {
			run = args[i+1]
		}
	}
	files, err := filepath.Glob(dir + "/*_test.go")
	if err != nil {
		return err
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if strings.Contains(string(text), "func "+run+"(") {
			return nil
		}
	}
	return fmt.Errorf("%s has no test %s", dir, run)
}

// checkCompose checks that the file and the service of a command of docker compose exist.
func checkCompose(t *testing.T, args []string) error {
	t.Helper()
	if len(args) < 4 || args[0] != "compose" || args[1] != "-f" {
		return errors.New("only docker compose -f FILE COMMAND is checked")
	}
	file, err := os.ReadFile(args[2])
	if err != nil {
		return err
	}
	service := args[len(args)-1]
	if args[3] == "exec" && len(args) > 4 {
		service = args[4]
	}
	if service == args[3] || strings.HasPrefix(service, "-") {
		return nil // it is for all services
	}
	if !strings.Contains(string(file), "\n  "+service+":") {
		return fmt.Errorf("%s has no service %s", args[2], service)
	}
	return nil
}

// checkUnit checks that the unit of a command of systemd is one that the repository has.
func checkUnit(t *testing.T, args []string) error {
	t.Helper()
	units, err := filepath.Glob("deploy/systemd/*.service")
	if err != nil {
		return err
	}
	for _, unit := range units {
		if slices.Contains(args, strings.TrimSuffix(filepath.Base(unit), ".service")) {
			return nil
		}
	}
	return fmt.Errorf("there is no such unit among %v", units)
}

// redisChecker returns a check that runs a command on a Redis server. A mode of redis-cli itself must be in its help.
func redisChecker(t *testing.T) func(*testing.T, []string) error {
	t.Helper()
	server := redistest.Start(t)
	return func(t *testing.T, args []string) error {
		t.Helper()
		if len(args) == 0 {
			return errors.New("there is no command")
		}
		if !strings.HasPrefix(args[0], "--") {
			_, err := server.Do(args...)
			return err
		}
		help, err := exec.CommandContext(t.Context(), "redis-cli", "--help").CombinedOutput()
		if err != nil {
			return err
		}
		if !strings.Contains(string(help), " "+args[0]+" ") {
			return fmt.Errorf("redis-cli has no %s", args[0])
		}
		return nil
	}
}
