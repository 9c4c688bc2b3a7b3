package config

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

// TestSettingsHideSecrets sets every text to a secret, and every URL to one with a secret in several places.
func TestSettingsHideSecrets(t *testing.T) {
	t.Parallel()
	const secret = "s3cret-canary"
	c := Default()
	texts := 0
	var set func(v reflect.Value, path string)
	set = func(v reflect.Value, path string) {
		for i := range v.NumField() {
			f := v.Type().Field(i)
			key := path + f.Tag.Get("toml")
			value := secret
			if slices.Contains(shownURLs, key) {
				value = "redis://user:" + secret + "@host:1/0?token=" + secret + "#" + secret
			}
			switch {
			case f.Type.Kind() == reflect.Struct:
				set(v.Field(i), key+".")
			case isTableList(f.Type), slices.Contains(shownTexts, key):
			case f.Type.Kind() == reflect.String:
				v.Field(i).SetString(value)
				texts++
			case isText(f.Type):
				v.Field(i).Set(reflect.ValueOf([]string{value, value}))
				texts++
			}
		}
	}
	set(reflect.ValueOf(&c).Elem(), "")
	hidden := 0
	all := Settings(&c)
	for _, s := range all {
		if strings.Contains(s.Value, secret) {
			t.Errorf("%s shows a secret: %s", s.Key, s.Value)
		}
		if s.Hidden {
			hidden++
		}
	}
	if hidden != texts-len(shownURLs) || hidden < 8 {
		t.Errorf("%d of %d texts are hidden, %d are URLs", hidden, texts, len(shownURLs))
	}
	for _, key := range slices.Concat(shownTexts, shownURLs) {
		if !slices.ContainsFunc(all, func(s Setting) bool { return s.Key == key && !s.Hidden }) {
			t.Errorf("there is no key %s that is shown", key)
		}
	}
}

// TestSettingsSayWhatIsDefault compares with the default configuration.
func TestSettingsSayWhatIsDefault(t *testing.T) {
	t.Parallel()
	c := Default()
	c.Server.Port, c.Store = 7001, "redis://user:pw@redis:6379/1"
	for _, s := range Settings(&c) {
		changed := s.Key == "server.port" || s.Key == "store"
		if s.Default == changed || s.Doc == "" {
			t.Errorf("%+v", s)
		}
		if s.Key == "store" && s.Value != "redis://redis:6379/1" || s.Key == "server.port" && s.Value != "7001" {
			t.Errorf("%+v", s)
		}
	}
}

// TestShownURLs checks what is shown of a URL.
func TestShownURLs(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"memory":                                   "memory",
		"redis://redis:6379/0":                     "redis://redis:6379/0",
		"redis://user:secret@redis:6379/0":         "redis://redis:6379/0",
		"redis://:sec@ret@redis":                   "redis://redis",
		"redis://:sec/ret@redis/1":                 "redis://redis/1",
		"redis://:sec?ret@redis/1":                 "redis://…",
		"redis://:sec#ret@redis/1":                 "redis://…",
		"redis://redis/0?password=a@secret":        "redis://…",
		"redis://redis/0?password=secret":          "redis://redis/0",
		"redis-sentinel://u:secret@a:1,b:2/main/0": "redis-sentinel://a:1,b:2/main/0",
		"https://hub:8443":                         "https://hub:8443",
		"https://hub:8443/":                        "https://hub:8443/",
		"https://hub/services/secret":              "https://hub/…",
		"https://user:secret@hub/services/secret":  "https://hub/…",
		"https://hub/%zz":                          "https://hub/…",
		"redis://hub/%zz":                          "redis://…",
	} {
		if got := withoutSecret(text); got != want {
			t.Errorf("%s is shown as %s, want %s", text, got, want)
		}
	}
}
