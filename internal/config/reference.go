package config

import (
	"fmt"
	"io"
	"reflect"
	"strings"
)

// WriteReference writes a config file that holds every key with its default, its meaning and the name of its
// environment variable.
func WriteReference(w io.Writer) error {
	out := &strings.Builder{}
	out.WriteString("# Every key, with its default, which a key that is left out keeps.\n# The environment wins over the file, flags " +
		"win over both.\n")
	c := Default()
	writeTable(out, reflect.ValueOf(c), "", EnvPrefix)
	_, err := io.WriteString(w, out.String())
	return err
}

// writeTable writes one table: its own keys first, then the tables inside it.
func writeTable(out *strings.Builder, v reflect.Value, table, env string) {
	t := v.Type()
	var inner, lists []int
	hasHeader := false
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Type.Kind() == reflect.Struct {
			inner = append(inner, i)
			continue
		}
		if isTableList(f.Type) {
			lists = append(lists, i)
			continue
		}
		if table != "" && !hasHeader {
			fmt.Fprintf(out, "\n[%s]\n", table)
			hasHeader = true
		}
		assignment := f.Tag.Get("toml") + " = " + formatTOML(v.Field(i))
		if v.Field(i).Kind() == reflect.Pointer {
			assignment = "# " + f.Tag.Get("toml") + " = " // what it is by default depends on other keys
		}
		fmt.Fprintf(out, "\n# %s\n# %s\n%s\n", f.Tag.Get("doc"), env+f.Tag.Get("env"), assignment)
	}
	for _, i := range lists {
		writeListExample(out, t.Field(i), table)
	}
	for _, i := range inner {
		f := t.Field(i)
		name := f.Tag.Get("toml")
		if table != "" {
			name = table + "." + name
		}
		writeTable(out, v.Field(i), name, env+f.Tag.Get("envPrefix"))
	}
}

// writeListExample writes the keys of a list of tables, commented out: by default the list is empty.
func writeListExample(out *strings.Builder, list reflect.StructField, table string) {
	fmt.Fprintf(out, "\n# %s\n# [[%s.%s]]\n", list.Tag.Get("doc"), table, list.Tag.Get("toml"))
	for f := range list.Type.Elem().Fields() {
		fmt.Fprintf(out, "# %s: %s\n", f.Tag.Get("toml"), f.Tag.Get("doc"))
	}
}

// formatTOML formats a value as TOML.
func formatTOML(v reflect.Value) string {
	switch v.Kind() {
	case reflect.String:
		return fmt.Sprintf("%q", v.String())
	case reflect.Slice:
		parts := make([]string, v.Len())
		for i := range parts {
			parts[i] = formatTOML(v.Index(i))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return fmt.Sprint(v.Interface())
}
