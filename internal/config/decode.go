package config

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// decode reads a TOML document over the configuration. The library could fill the struct itself, but it stops at the first
// value of a wrong type and its errors name Go types: it only parses the text here.
func (u *Unvalidated) decode(file string, body []byte) {
	var document map[string]any
	err := toml.Unmarshal(body, &document)
	if err == nil {
		u.text, u.positions = body, findKeys(body)
		u.decodeTable(file, "", reflect.ValueOf(&u.Config).Elem(), document)
		return
	}
	u.unreadable = true
	var decodeErr *toml.DecodeError
	if errors.As(err, &decodeErr) {
		line, column := decodeErr.Position()
		err = fmt.Errorf("line %d, column %d: %s; nothing else in the file can be checked before this is corrected",
			line, column, strings.TrimPrefix(decodeErr.Error(), "toml: "))
	}
	u.problems = append(u.problems, fmt.Errorf("%s: %w", file, err))
}

// decodeTable decodes one table and those inside it. The path is empty or ends with a dot.
func (u *Unvalidated) decodeTable(file, path string, into reflect.Value, table map[string]any) {
	for i := range into.NumField() {
		name := into.Type().Field(i).Tag.Get("toml")
		value, ok := table[name]
		if !ok {
			continue
		}
		delete(table, name)
		key, field := path+name, into.Field(i)
		u.source[key], u.fromFile[key] = file+": "+key, true
		if field.Kind() == reflect.Struct && field.Type() != reflect.TypeFor[time.Time]() {
			if inner, ok := value.(map[string]any); ok {
				u.decodeTable(file, key+".", field, inner)
			} else {
				u.rejectValue(key, fmt.Sprintf("this is a table, not %s; write [%s] and its keys below it", describeValue(key, value), key))
			}
			continue
		}
		if isTableList(field.Type()) {
			u.decodeTables(file, key, field, value)
			continue
		}
		if rejected, want := setField(field, value); want != "" {
			u.rejectValue(key, fmt.Sprintf("%s is not %s", describeValue(key, rejected), want))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(table)) {
		key := path + quoteKey(name)
		if u.warnUnused(key, file+": "+key) || u.readReservationTTL(file, key, table[name]) {
			continue
		}
		u.source[key], u.fromFile[key] = file+": "+key, true
		u.rejectValue(key, "there is no such key; lingua config reference lists all keys")
	}
}

// isTableList reports whether a field is a list of tables.
func isTableList(t reflect.Type) bool {
	return t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct
}

// decodeTables decodes a list of tables. The key of the first is key[0].
func (u *Unvalidated) decodeTables(file, key string, into reflect.Value, value any) {
	list, ok := value.([]any)
	tables := make([]map[string]any, len(list))
	for i := range list {
		var isTable bool
		tables[i], isTable = list[i].(map[string]any)
		ok = ok && isTable
	}
	if !ok {
		u.rejectValue(key, fmt.Sprintf("this is a list of tables; write [[%s]] and its keys below it, for each", key))
		return
	}
	into.Set(reflect.MakeSlice(into.Type(), len(tables), len(tables)))
	for i, table := range tables {
		u.decodeTable(file, fmt.Sprintf("%s[%d].", key, i), into.Index(i), table)
	}
}

// setField stores a value of the file in a field. If the value has the wrong type it returns the part of it that has, and
// a description of the right type.
func setField(field reflect.Value, value any) (rejected any, want string) {
	if field.Kind() == reflect.Pointer {
		pointer := reflect.New(field.Type().Elem())
		if rejected, want := setField(pointer.Elem(), value); want != "" {
			return rejected, want
		}
		field.Set(pointer)
		return nil, ""
	}
	switch v := value.(type) {
	case time.Time:
		if field.Type() == reflect.TypeFor[time.Time]() {
			field.Set(reflect.ValueOf(v))
			return nil, ""
		}
	case string:
		if field.Kind() == reflect.String {
			field.SetString(v)
			return nil, ""
		}
	case bool:
		if field.Kind() == reflect.Bool {
			field.SetBool(v)
			return nil, ""
		}
	case int64:
		switch {
		case field.Type() == reflect.TypeFor[PoolID]():
			field.SetString(strconv.FormatInt(v, 10))
			return nil, ""
		case field.CanInt() && !field.OverflowInt(v):
			field.SetInt(v)
			return nil, ""
		case field.CanFloat():
			field.SetFloat(float64(v))
			return nil, ""
		}
	case float64:
		if field.CanFloat() {
			field.SetFloat(v)
			return nil, ""
		}
	case []any:
		if field.Kind() != reflect.Slice {
			break
		}
		list := reflect.MakeSlice(field.Type(), len(v), len(v))
		for i := range v {
			if rejected, want := setField(list.Index(i), v[i]); want != "" {
				return rejected, want
			}
		}
		field.Set(list)
		return nil, ""
	}
	return value, describeType(field.Type())
}

// describeType describes the values that a setting can have, in the terms of a config file.
func describeType(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[Millis]():
		return "a whole number of milliseconds"
	case reflect.TypeFor[Seconds]():
		return "a whole number of seconds"
	case reflect.TypeFor[time.Time]():
		return "a time with its zone such as 2026-01-31T08:00:00Z, without quotes"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return describeType(t.Elem())
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a string in quotes"
	case reflect.Slice:
		return `a list such as ["a", "b"]`
	case reflect.Float64:
		return "a number"
	}
	return "a whole number"
}

var secretName = regexp.MustCompile(`(?i)token|password|secret|key`)

// describeValue formats a rejected value, unless it may be a secret: errors are copied into logs and tickets.
func describeValue(name string, value any) string {
	if secretName.MatchString(name) {
		return "the value"
	}
	switch v := value.(type) {
	case string:
		return fmt.Sprintf("%q", v)
	case bool, int64, float64:
		return fmt.Sprint(v)
	case []any:
		return "a list"
	case map[string]any:
		return "a table"
	}
	return "a date or time"
}

var bareKey = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// quoteKey formats one part of a key as TOML requires.
func quoteKey(name string) string {
	if bareKey.MatchString(name) {
		return name
	}
	return strconv.Quote(name)
}

// position is the place of a key in the file.
type position struct{ line, column, width int }

// findKeys returns the position of each key in a valid TOML document.
func findKeys(body []byte) map[string]position {
	found := make(map[string]position)
	var p unstable.Parser
	p.Reset(body)
	table := ""
	for p.NextExpression() {
		e := p.Expression()
		switch e.Kind {
		case unstable.Table, unstable.ArrayTable:
			table = addKey(&p, e, "", found) + "."
		case unstable.KeyValue:
			addPair(&p, e, table, found)
		}
	}
	return found
}

// addPair adds the position of a key and, if its value is an inline table, of the keys inside it.
func addPair(p *unstable.Parser, e *unstable.Node, path string, found map[string]position) {
	key := addKey(p, e, path, found)
	if value := e.Value(); value.Kind == unstable.InlineTable {
		for inner := value.Children(); inner.Next(); {
			addPair(p, inner.Node(), key+".", found)
		}
	}
}

// addKey adds the position of every part of a dotted key and returns the whole key.
func addKey(p *unstable.Parser, e *unstable.Node, path string, found map[string]position) string {
	key := path
	for part := e.Key(); part.Next(); {
		n := part.Node()
		key += quoteKey(string(n.Data))
		start := p.Shape(n.Raw).Start
		if _, known := found[key]; !known {
			found[key] = position{line: start.Line, column: start.Column, width: int(n.Raw.Length)}
		}
		key += "."
	}
	return strings.TrimSuffix(key, ".")
}

// excerpt returns the line with a caret under the key, unless the line may hold a secret.
func (at position) excerpt(body []byte) string {
	lines := bytes.Split(body, []byte("\n"))
	if at.line < 1 || at.line > len(lines) || secretName.Match(lines[at.line-1]) || bytes.ContainsRune(lines[at.line-1], '@') {
		return ""
	}
	number := fmt.Sprintf("%4d", at.line)
	indent := strings.Map(func(r rune) rune {
		if r == '\t' {
			return r
		}
		return ' '
	}, string(lines[at.line-1][:min(at.column-1, len(lines[at.line-1]))]))
	return fmt.Sprintf("\n%s | %s\n%s | %s%s", number, bytes.TrimRight(lines[at.line-1], "\r"),
		strings.Repeat(" ", len(number)), indent, strings.Repeat("^", max(at.width, 1)))
}
