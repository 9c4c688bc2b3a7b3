package config

import "testing"

func TestEveryKeyIsNamedAndExplained(t *testing.T) {
	t.Parallel()
	c := Default()
	names, variables := make(map[string]bool), make(map[string]bool)
	for _, k := range keys(&c) {
		if k.Doc == "" {
			t.Errorf("%s is not explained", k.Name)
		}
		if names[k.Name] || variables[k.Env] || k.Name == "" || k.Env == EnvPrefix {
			t.Errorf("%s, %s: a name is missing or used twice", k.Name, k.Env)
		}
		names[k.Name], variables[k.Env] = true, true
	}
}
