package config

import "reflect"

// key is one setting of a configuration.
type key struct {
	Name string // as in the file
	Env  string // its environment variable
	Doc  string
	At   reflect.Value
}

// keys lists every setting, by reflection: one that is added later is read and tested like the others.
func keys(c *Config) []key {
	var all []key
	var visit func(v reflect.Value, table, env string)
	visit = func(v reflect.Value, table, env string) {
		for i := range v.NumField() {
			f := v.Type().Field(i)
			name := table + f.Tag.Get("toml")
			if f.Type.Kind() == reflect.Struct {
				visit(v.Field(i), name+".", env+f.Tag.Get("envPrefix"))
				continue
			}
			all = append(all, key{Name: name, Env: env + f.Tag.Get("env"), Doc: f.Tag.Get("doc"), At: v.Field(i)})
		}
	}
	visit(reflect.ValueOf(c).Elem(), "", EnvPrefix)
	return all
}
