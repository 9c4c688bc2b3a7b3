package config

import "reflect"

// Differences returns the keys, as in the file, whose values differ between two configurations. A list of tables, such as auth.keys,
// counts as one key.
func Differences(a, b *Config) []string {
	var keys []string
	var compare func(x, y reflect.Value, path string)
	compare = func(x, y reflect.Value, path string) {
		for i := range x.NumField() {
			f := x.Type().Field(i)
			key := path + f.Tag.Get("toml")
			if f.Type.Kind() == reflect.Struct {
				compare(x.Field(i), y.Field(i), key+".")
			} else if !reflect.DeepEqual(x.Field(i).Interface(), y.Field(i).Interface()) {
				keys = append(keys, key)
			}
		}
	}
	compare(reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem(), "")
	return keys
}

// Overwrite copies the keys for which match returns true from one configuration to another. Keys are as those of Differences.
func Overwrite(to, from *Config, match func(key string) bool) {
	var overwrite func(x, y reflect.Value, path string)
	overwrite = func(x, y reflect.Value, path string) {
		for i := range x.NumField() {
			f := x.Type().Field(i)
			key := path + f.Tag.Get("toml")
			if f.Type.Kind() == reflect.Struct {
				overwrite(x.Field(i), y.Field(i), key+".")
			} else if match(key) {
				x.Field(i).Set(y.Field(i))
			}
		}
	}
	overwrite(reflect.ValueOf(to).Elem(), reflect.ValueOf(from).Elem(), "")
}
