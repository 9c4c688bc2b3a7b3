// Package docpage parses the Markdown pages of the directory docs, for the tests that check what the pages contain. It also
// reads and writes transcripts: the recorded frames of a WebSocket, in a fenced block.
package docpage

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Page is one Markdown page.
type Page struct {
	Path string // from the root of the repository, with slashes
	Text string
}

// Load reads every page under the directory docs of a repository.
func Load(root string) ([]Page, error) {
	var pages []Page
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(file) != ".md" {
			return err
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, file)
		pages = append(pages, Page{Path: filepath.ToSlash(name), Text: string(text)})
		return err
	})
	return pages, err
}

// Block is a fenced code block.
type Block struct {
	Page string
	Line int    // of its first line, counted from 1
	Info string // what follows the opening fence: the language, and what the block contains
	Body string // without the indentation of the fence
}

// Language is the first word of the info string.
func (b *Block) Language() string {
	language, _, _ := strings.Cut(b.Info, " ")
	return language
}

// About is the info string without the language.
func (b *Block) About() string {
	_, about, _ := strings.Cut(b.Info, " ")
	return strings.TrimSpace(about)
}

const fence = "```"

// Blocks returns the fenced blocks of the page.
func (p *Page) Blocks() []Block {
	var blocks []Block
	var open *Block
	indent, number := "", 0
	for line := range strings.Lines(p.Text) {
		number++
		trimmed := strings.TrimSpace(line)
		switch {
		case open == nil && strings.HasPrefix(trimmed, fence):
			indent, _, _ = strings.Cut(line, fence)
			open = &Block{Page: p.Path, Line: number + 1, Info: strings.TrimSpace(strings.TrimPrefix(trimmed, fence))}
		case open != nil && trimmed == fence:
			blocks = append(blocks, *open)
			open = nil
		case open != nil:
			open.Body += strings.TrimPrefix(line, indent)
		}
	}
	return blocks
}

// ReplaceBlock returns the page with another body of the block that has an info string. It reports false if there is no such
// block.
func (p *Page) ReplaceBlock(info, body string) (Page, bool) {
	opening := fence + info + "\n"
	before, rest, found := strings.Cut(p.Text, opening)
	_, after, closed := strings.Cut(rest, "\n"+fence)
	if !found || !closed {
		return *p, false
	}
	return Page{Path: p.Path, Text: before + opening + strings.TrimSuffix(body, "\n") + "\n" + fence + after}, true
}

// Span is a piece of code within a sentence.
type Span struct {
	Page string
	Line int
	Text string
}

// Spans returns the code between backticks outside of fenced blocks.
func (p *Page) Spans() []Span {
	var spans []Span
	inBlock, number := false, 0
	for line := range strings.Lines(p.Text) {
		number++
		if strings.HasPrefix(strings.TrimSpace(line), fence) {
			inBlock = !inBlock
			continue
		}
		if inBlock {
			continue
		}
		parts := strings.Split(line, "`")
		for i := 1; i+1 < len(parts); i += 2 {
			spans = append(spans, Span{Page: p.Path, Line: number, Text: parts[i]})
		}
	}
	return spans
}

// Commands returns the command lines of a block in a shell language, without comments.
func (b *Block) Commands() []string {
	if language := b.Language(); language != "bash" && language != "sh" {
		return nil
	}
	var commands []string
	for line := range strings.Lines(b.Body) {
		line, _, _ = strings.Cut(line, "  #")
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			commands = append(commands, line)
		}
	}
	return commands
}

// Words splits a command line at spaces. Quotes group words and are removed; nothing is expanded.
func Words(line string) []string {
	var words []string
	var word strings.Builder
	inWord, quote := false, rune(0)
	for _, c := range line {
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '\'' || c == '"'):
			quote, inWord = c, true
		case quote == 0 && c == ' ':
			if inWord {
				words = append(words, word.String())
			}
			inWord = false
			word.Reset()
		default:
			inWord = true
			word.WriteRune(c)
		}
	}
	if inWord {
		words = append(words, word.String())
	}
	return words
}

const (
	tableEnd  = "<!-- end of table -->"
	tableHead = 2 // lines: the names of the columns, and the line below them
)

func tableStart(name string) string { return "<!-- table: " + name + " -->\n" }

// Table returns the rows of a table as their cells, without the head. The table follows the comment "<!-- table: NAME -->" and
// ends with "<!-- end of table -->". It returns nil if there is no such table.
func (p *Page) Table(name string) [][]string {
	_, rest, found := strings.Cut(p.Text, tableStart(name))
	body, _, closed := strings.Cut(rest, tableEnd)
	if !found || !closed {
		return nil
	}
	var rows [][]string
	for line := range strings.Lines(body) {
		var cells []string
		for cell := range strings.SplitSeq(strings.Trim(strings.TrimSpace(line), "|"), "|") {
			cells = append(cells, strings.TrimSpace(cell))
		}
		rows = append(rows, cells)
	}
	return rows[min(tableHead, len(rows)):]
}

// ReplaceTable returns the page with other rows in a table that it has.
func (p *Page) ReplaceTable(name string, rows [][]string) Page {
	before, rest, _ := strings.Cut(p.Text, tableStart(name))
	body, after, _ := strings.Cut(rest, tableEnd)
	var out strings.Builder
	for _, line := range strings.SplitAfterN(body, "\n", tableHead+1)[:tableHead] {
		out.WriteString(line)
	}
	for _, cells := range rows {
		out.WriteString("| " + strings.Join(cells, " | ") + " |\n")
	}
	return Page{Path: p.Path, Text: before + tableStart(name) + out.String() + tableEnd + after}
}
