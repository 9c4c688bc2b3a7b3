package config

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/pelletier/go-toml/v2/unstable"
)

// place is where a file names a key.
type place struct{ line, column, width int }

// places finds where a TOML document, which is known to be one, names each key.
func places(body []byte) map[string]place {
	found := make(map[string]place)
	var p unstable.Parser
	p.Reset(body)
	table := ""
	for p.NextExpression() {
		e := p.Expression()
		switch e.Kind {
		case unstable.Table, unstable.ArrayTable:
			table = named(&p, e, "", found) + "."
		case unstable.KeyValue:
			pair(&p, e, table, found)
		}
	}
	return found
}

// pair notes a key and, if its value is a table in braces, those inside it.
func pair(p *unstable.Parser, e *unstable.Node, path string, found map[string]place) {
	key := named(p, e, path, found)
	if value := e.Value(); value.Kind == unstable.InlineTable {
		for inner := value.Children(); inner.Next(); {
			pair(p, inner.Node(), key+".", found)
		}
	}
}

// named notes every part of a dotted key and returns the whole.
func named(p *unstable.Parser, e *unstable.Node, path string, found map[string]place) string {
	key := path
	for part := e.Key(); part.Next(); {
		n := part.Node()
		key += spelled(string(n.Data))
		start := p.Shape(n.Raw).Start
		if _, known := found[key]; !known {
			found[key] = place{line: start.Line, column: start.Column, width: int(n.Raw.Length)}
		}
		key += "."
	}
	return strings.TrimSuffix(key, ".")
}

// excerpt shows the line with a caret under the key, unless it looks as if it held a secret.
func (at place) excerpt(body []byte) string {
	lines := bytes.Split(body, []byte("\n"))
	if at.line < 1 || at.line > len(lines) || secretName.Match(lines[at.line-1]) || bytes.ContainsRune(lines[at.line-1], '@') {
		return ""
	}
	number := fmt.Sprintf("%4d", at.line)
	lead := strings.Map(func(r rune) rune {
		if r == '\t' {
			return r
		}
		return ' '
	}, string(lines[at.line-1][:min(at.column-1, len(lines[at.line-1]))]))
	return fmt.Sprintf("\n%s | %s\n%s | %s%s", number, bytes.TrimRight(lines[at.line-1], "\r"),
		strings.Repeat(" ", len(number)), lead, strings.Repeat("^", max(at.width, 1)))
}
