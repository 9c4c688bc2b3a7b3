package config

import (
	"net/url"
	"reflect"
	"slices"
	"strings"
)

// Setting is a key of the configuration as people may see it.
type Setting struct {
	Key     string // as in the file, such as server.port
	Value   string // a text as it is, everything else as in a file; empty if Hidden
	Default bool   // it has its default value
	Hidden  bool   // the value may contain a secret, and is only said to be set
	Doc     string
}

// shownTexts are the keys with a text that is no secret. Every other text is hidden, so that nothing that is added later is shown by
// accident.
var shownTexts = []string{
	"server.host", "server.base_path", "server.advertise_url", "server.tls_cert", "server.tls_key", "server.tls_ca", "auth.anonymous_role",
	"auth.anonymous_from", "auth.anonymous_hosts", "log.level", "log.format", "audit.output",
	"callback.allowed_targets", "scheduler.sessions.origins", "scheduler.phase2.instance_id", "scheduler.phase2.redis.sentinel_master",
	"scheduler.phase2.redis.key_prefix", "scheduler.phase2.redis.tls_ca", "scheduler.phase3.pool_match_scope",
	"scheduler.tracing.token_header", "scheduler.tracing.tls_ca",
}

// shownURLs are the keys with URLs, of which only what cannot be a secret is shown.
var shownURLs = []string{
	"store", "scheduler.phase2.redis.url", "scheduler.phase2.redis.cluster_urls", "scheduler.phase2.redis.sentinel_urls",
	"scheduler.model_hub.url", "scheduler.tracing.otlp_endpoint",
}

// Settings returns every key with its value, without secrets. Lists of tables, such as auth.keys, are left out.
func Settings(c *Config) []Setting {
	var all []Setting
	defaults := Default()
	var add func(v, d reflect.Value, path string)
	add = func(v, d reflect.Value, path string) {
		for i := range v.NumField() {
			f := v.Type().Field(i)
			key := path + f.Tag.Get("toml")
			switch {
			case f.Type.Kind() == reflect.Struct:
				add(v.Field(i), d.Field(i), key+".")
			case !isTableList(f.Type):
				s := Setting{Key: key, Doc: f.Tag.Get("doc"), Default: reflect.DeepEqual(v.Field(i).Interface(), d.Field(i).Interface())}
				s.show(v.Field(i))
				all = append(all, s)
			}
		}
	}
	add(reflect.ValueOf(c).Elem(), reflect.ValueOf(&defaults).Elem(), "")
	return all
}

// show sets the value, unless it may be a secret.
func (s *Setting) show(v reflect.Value) {
	switch {
	case v.Kind() == reflect.Pointer:
		if !v.IsNil() {
			s.Value = formatShown(v.Elem())
		}
	case !isText(v.Type()) || slices.Contains(shownTexts, s.Key) || v.IsZero():
		s.Value = formatShown(v)
	case slices.Contains(shownURLs, s.Key):
		s.Value = formatShown(withoutSecrets(v))
	default:
		s.Hidden = true
	}
}

func isText(t reflect.Type) bool {
	return t.Kind() == reflect.String || t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.String
}

// formatShown formats a value for people.
func formatShown(v reflect.Value) string {
	if v.Kind() == reflect.String {
		return v.String()
	}
	return formatTOML(v)
}

// withoutSecrets returns a URL, or a list of them, without what may be a secret.
func withoutSecrets(v reflect.Value) reflect.Value {
	if v.Kind() == reflect.String {
		return reflect.ValueOf(withoutSecret(v.String()))
	}
	list := make([]string, v.Len())
	for i := range list {
		list[i] = withoutSecret(v.Index(i).String())
	}
	return reflect.ValueOf(list)
}

// withoutSecret returns a URL without its user, its query and its fragment. The path of a service over HTTP may contain a token, and is
// left out, too; that of Redis is the number of a database, or the name of a primary.
func withoutSecret(text string) string {
	const hidden = "…"
	scheme, rest, found := strings.Cut(text, "://")
	if !found {
		return text // "memory"
	}
	// Addresses of several hosts are no URLs for a parser. An @ after the query has begun may be part of a secret, and so may all before
	// it.
	if query := strings.IndexAny(rest, "?#"); query >= 0 {
		if strings.Contains(rest[query:], "@") {
			return scheme + "://" + hidden
		}
		rest = rest[:query]
	}
	if at := strings.LastIndex(rest, "@"); at >= 0 {
		rest = rest[at+1:]
	}
	if host, path, _ := strings.Cut(rest, "/"); path != "" && !strings.HasPrefix(scheme, "redis") {
		rest = host + "/" + hidden
	}
	if _, err := url.PathUnescape(rest); err != nil {
		return scheme + "://" + hidden
	}
	return scheme + "://" + rest
}
