package config

import (
	"math"
	"net/url"
	"strings"
	"time"
)

// ModelNotAvailable configures reports of nodes that a service is unavailable.
type ModelNotAvailable struct {
	MarkTTLSeconds    Seconds `toml:"mark_ttl_seconds" env:"MARK_TTL_SECONDS" doc:"How long the service then counts as not ready on that node, unless the node reports before that it has become ready."`
	DebounceSeconds   Seconds `toml:"debounce_seconds" env:"DEBOUNCE_SECONDS" doc:"Within this time, reports of one service and version by any nodes cause one refresh of the catalog, one warning and one event. Each is marked all the same."`
	NodeRatePerMinute int     `toml:"node_rate_per_minute" env:"NODE_RATE_PER_MINUTE" doc:"How many reports of a node a minute may mark services. Further ones mark nothing; the jobs that they name are retried all the same."`
	RateWindowSeconds Seconds `toml:"rate_window_seconds" env:"RATE_WINDOW_SECONDS" doc:"The window in which these reports are counted: in one of 10 seconds, 60 a minute are 10."`
}

// RateLimit returns how many reports of a node may mark services in each window.
func (m *ModelNotAvailable) RateLimit() int {
	return int(int64(m.NodeRatePerMinute) * int64(m.RateWindowSeconds) / 60)
}

// ModelHub configures the catalog of services.
type ModelHub struct {
	URL            string  `toml:"url" env:"URL" doc:"The URL at which a ModelHub lists the services that there are, with their names and versions. Empty: there is no catalog. Nothing is dispatched differently without it."`
	RefreshSeconds Seconds `toml:"refresh_seconds" env:"REFRESH_SECONDS" doc:"How often the list is refreshed. After three failures in a row the interval grows to 20 times this, at most to 10 minutes."`
	TimeoutMS      Millis  `toml:"timeout_ms" env:"TIMEOUT_MS" doc:"How long one request to the ModelHub may take."`
	Token          string  `toml:"token" env:"TOKEN" doc:"Sent to the ModelHub as Authorization: Bearer. Empty: none."`
}

// validateGuards checks the reports of nodes and the catalog of services.
func (c *Config) validateGuards(v *validator) {
	const na, hub = "scheduler.model_not_available", "scheduler.model_hub"
	m, h := &c.Scheduler.ModelNotAvailable, &c.Scheduler.ModelHub
	v.requireYear(na+".mark_ttl_seconds", int64(m.MarkTTLSeconds), time.Second)
	v.requireMin(na+".mark_ttl_seconds", int64(m.MarkTTLSeconds), 1)
	v.requireRange(na+".debounce_seconds", int64(m.DebounceSeconds), 1, 3600)
	v.requireRange(na+".node_rate_per_minute", int64(m.NodeRatePerMinute), 1, math.MaxInt32)
	v.requireRange(na+".rate_window_seconds", int64(m.RateWindowSeconds), 1, 3600)
	if m.NodeRatePerMinute >= 1 && m.RateWindowSeconds >= 1 && m.RateWindowSeconds <= 3600 {
		v.require(m.RateLimit() >= 1, na+".rate_window_seconds",
			"must be %d or more with node_rate_per_minute = %d, not %d: no report would mark anything",
			(60+m.NodeRatePerMinute-1)/m.NodeRatePerMinute, m.NodeRatePerMinute,
			m.RateWindowSeconds).comparedWith(na + ".node_rate_per_minute")
	}
	// The URL may contain a secret, and is not part of the text.
	v.require(h.URL == "" || isServiceURL(h.URL), hub+".url",
		"must be an address such as https://hub.example:8443/v1/services, with no user before the host and no fragment")
	v.requireRange(hub+".refresh_seconds", int64(h.RefreshSeconds), 1, 86_400)
	v.requireRange(hub+".timeout_ms", int64(h.TimeoutMS), 10, 60_000)
	v.require(!strings.ContainsFunc(h.Token, func(r rune) bool { return r <= ' ' || r > '~' }), hub+".token",
		"must not contain spaces, and only characters of ASCII")
}

// isServiceURL reports whether a text is an absolute URL of HTTP without a user and a fragment.
func isServiceURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != "" && u.User == nil && u.Fragment == ""
}
