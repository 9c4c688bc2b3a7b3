package config

import (
	"regexp"
	"strings"

	"github.com/lingua-scheduler/lingua/internal/auth"
)

// Tracing configures the traces of utterances.
type Tracing struct {
	Endpoint    string  `toml:"otlp_endpoint" env:"OTLP_ENDPOINT" doc:"The URL of an OpenTelemetry collector to which traces are sent over OTLP/HTTP, such as http://127.0.0.1:4318/v1/traces. Empty: there are no traces. Set the same on all instances."`
	SampleRatio float64 `toml:"sample_ratio" env:"SAMPLE_RATIO" doc:"The fraction of utterances that is traced, from 0 to 1. Set the same on all instances: an utterance is traced on all of them or on none."`
	Token       string  `toml:"token" env:"TOKEN" doc:"Sent to the collector in the header token_header, as Bearer if that is Authorization. Empty: none."`
	TokenHeader string  `toml:"token_header" env:"TOKEN_HEADER" doc:"The header with the token."`
	TimeoutMS   Millis  `toml:"timeout_ms" env:"TIMEOUT_MS" doc:"How long one request to the collector may take, and the last ones of an instance that stops together."`
	TLSCA       string  `toml:"tls_ca" env:"TLS_CA" doc:"A file with the authorities, in PEM, that are trusted for the certificate of the collector. Empty: those of the system."`
}

// headerName is the pattern of names of HTTP headers.
var headerName = regexp.MustCompile(`^[A-Za-z0-9-]{1,64}$`)

// validateTracing checks where traces are sent.
func (c *Config) validateTracing(v *validator) {
	const key = "scheduler.tracing"
	t := &c.Scheduler.Tracing
	// The URL may contain a secret, and is not part of the text.
	v.require(t.Endpoint == "" || isServiceURL(t.Endpoint), key+".otlp_endpoint",
		"must be an address such as http://127.0.0.1:4318/v1/traces, with no user before the host and no fragment")
	v.require(t.SampleRatio >= 0 && t.SampleRatio <= 1, key+".sample_ratio", "must be between 0 and 1, not %g", t.SampleRatio)
	v.require(!strings.ContainsFunc(t.Token, func(r rune) bool { return r <= ' ' || r > '~' }), key+".token",
		"must not contain spaces, and only characters of ASCII")
	v.require(headerName.MatchString(t.TokenHeader), key+".token_header", "must be the name of an HTTP header, such as Authorization")
	v.requireRange(key+".timeout_ms", int64(t.TimeoutMS), 10, 60_000)
	if t.TLSCA != "" {
		_, err := auth.ClientTLS(t.TLSCA)
		v.require(err == nil, key+".tls_ca", "%v", err)
	}
}
