package config

import (
	"strings"
	"testing"
)

// TestRedisKeys checks the keys that are listed when Redis cannot be opened, and that each of them exists.
func TestRedisKeys(t *testing.T) {
	t.Parallel()
	known := make(map[string]bool)
	c := Default()
	for _, k := range listSettings(&c) {
		known[k.key] = true
	}
	const r = "scheduler.phase2.redis"
	for name, row := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"store": {func(c *Config) { c.Store = "redis://h" }, "store, " + r + ".username and " + r + ".password"},
		"url":   {func(c *Config) { c.Scheduler.Phase2.Redis.URL = "redis://h" }, r + ".url, " + r + ".username and " + r + ".password"},
		"cluster": {
			func(c *Config) { c.Scheduler.Phase2.Redis.ClusterURLs = []string{"redis://h"} },
			r + ".cluster_urls, " + r + ".username and " + r + ".password",
		},
		"sentinels": {
			func(c *Config) {
				c.Scheduler.Phase2.Redis.SentinelURLs, c.Scheduler.Phase2.Redis.SentinelMaster = []string{"redis://h"}, "main"
			},
			r + ".sentinel_urls, " + r + ".username, " + r + ".password, " + r + ".sentinel_username and " + r + ".sentinel_password",
		},
	} {
		c := Default()
		c.Store, c.Scheduler.Phase2.Enabled, c.Scheduler.Phase2.Redis.URL = "", true, ""
		row.change(&c)
		got := c.RedisKeys()
		if got != row.want {
			t.Errorf("%s: %s, want %s", name, got, row.want)
		}
		for _, key := range strings.Split(strings.ReplaceAll(got, " and ", ", "), ", ") {
			if !known[key] {
				t.Errorf("%s: there is no key %s", name, key)
			}
		}
	}
}
