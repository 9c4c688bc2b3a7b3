package config

import "math"

// tracingRules are the rules of the traces.
var tracingRules = []rule{
	{"scheduler.tracing.otlp_endpoint", "no address", func(c *Config) { c.Scheduler.Tracing.Endpoint = "collector:4318" }},
	{"scheduler.tracing.otlp_endpoint", "with a user", func(c *Config) { c.Scheduler.Tracing.Endpoint = "https://user:pass@collector/v1/traces" }},
	{"scheduler.tracing.sample_ratio", "a percentage", func(c *Config) { c.Scheduler.Tracing.SampleRatio = 10 }},
	{"scheduler.tracing.sample_ratio", "negative", func(c *Config) { c.Scheduler.Tracing.SampleRatio = -0.1 }},
	{"scheduler.tracing.sample_ratio", "not a number", func(c *Config) { c.Scheduler.Tracing.SampleRatio = math.NaN() }},
	{"scheduler.tracing.token", "two lines", func(c *Config) { c.Scheduler.Tracing.Token = "a\nb" }},
	{"scheduler.tracing.token_header", "none", func(c *Config) { c.Scheduler.Tracing.TokenHeader = "" }},
	{"scheduler.tracing.token_header", "with its value", func(c *Config) { c.Scheduler.Tracing.TokenHeader = "X-Key: 1" }},
	{"scheduler.tracing.timeout_ms", "too short", func(c *Config) { c.Scheduler.Tracing.TimeoutMS = 9 }},
	{"scheduler.tracing.tls_ca", "no such file", func(c *Config) { c.Scheduler.Tracing.TLSCA = "/no/such/file" }},
}
