package config

import (
	"errors"
	"strings"

	"github.com/lingua-scheduler/lingua/internal/store/redisstore"
)

// Phase2 is for several schedulers that share one fleet.
type Phase2 struct {
	Enabled             bool    `toml:"enabled" env:"ENABLED" doc:"Keep the shared truth in Redis, so that any number of schedulers share one fleet. What store says wins over it."`
	InstanceID          string  `toml:"instance_id" env:"INSTANCE_ID" doc:"The name of this scheduler among the others; auto makes one."`
	HeartbeatTTLSeconds Seconds `toml:"heartbeat_ttl_seconds" env:"HEARTBEAT_TTL_SECONDS" doc:"How long a scheduler that says nothing counts as present. It says so three times as often, and grants nothing when it could not for two thirds of it."`
	StreamBlockMS       Millis  `toml:"stream_block_ms" env:"STREAM_BLOCK_MS" doc:"How long one read waits for letters of other schedulers."`
	DLQTTLSeconds       Seconds `toml:"dlq_ttl_seconds" env:"DLQ_TTL_SECONDS" doc:"How long dead letters are kept after the last of them."`
	Redis               Redis   `toml:"redis" envPrefix:"REDIS_"`
}

// Redis is where it is and how to enter. Give one of url, cluster_urls and sentinel_urls.
type Redis struct {
	URL              string   `toml:"url" env:"URL" doc:"redis://host:6379/0, or rediss:// for TLS. Also redis-sentinel:// and redis-cluster://, with several hosts."`
	ClusterURLs      []string `toml:"cluster_urls" env:"CLUSTER_URLS" doc:"Instead of url: some nodes of a cluster, each redis://host:6379."`
	SentinelURLs     []string `toml:"sentinel_urls" env:"SENTINEL_URLS" doc:"Instead of url: the sentinels, each redis://host:26379."`
	SentinelMaster   string   `toml:"sentinel_master" env:"SENTINEL_MASTER" doc:"The name by which the sentinels know the primary."`
	Username         string   `toml:"username" env:"USERNAME" doc:"For Redis, if the URL names none."`
	Password         string   `toml:"password" env:"PASSWORD" doc:"For Redis, if the URL holds none."`
	SentinelUsername string   `toml:"sentinel_username" env:"SENTINEL_USERNAME" doc:"For the sentinels, if they ask."`
	SentinelPassword string   `toml:"sentinel_password" env:"SENTINEL_PASSWORD" doc:"For the sentinels, if they ask."`
	KeyPrefix        string   `toml:"key_prefix" env:"KEY_PREFIX" doc:"Begins every key, so that several fleets can share a Redis."`
}

const (
	memory    = "memory"
	storeKey  = "store"
	phase2Key = "scheduler.phase2.redis"
)

// RedisAddress is where the shared truth is kept; false when that is in this process.
func (c *Config) RedisAddress() (redisstore.Address, bool, error) {
	a, shared, p := c.redisAddress()
	if p != nil {
		return a, shared, errors.New(p.String())
	}
	return a, shared, nil
}

func (c *Config) redisAddress() (redisstore.Address, bool, *problem) {
	r := &c.Scheduler.Phase2.Redis
	key, url := storeKey, c.Store
	switch {
	case c.Store == memory, c.Store == "" && !c.Scheduler.Phase2.Enabled:
		return redisstore.Address{}, false, nil
	case c.Store == "":
		var err error
		if key, url, err = r.url(); err != nil {
			return redisstore.Address{}, true, &problem{key: phase2Key + key, text: err.Error()}
		}
	}
	a, err := redisstore.ParseAddress(url)
	if err != nil {
		text := err.Error()
		if key == storeKey {
			text = strings.Replace(text, "; use ", "; use memory, ", 1)
		} else {
			key = phase2Key + key
		}
		return a, true, &problem{key: key, text: text}
	}
	if a.Username == "" {
		a.Username = r.Username
	}
	if a.Password == "" {
		a.Password = r.Password
	}
	a.SentinelUsername, a.SentinelPassword = r.SentinelUsername, r.SentinelPassword
	return a, true, nil
}

// RedisKeys names the keys that say where Redis is and how it is entered, for whoever has to mend one.
func (c *Config) RedisKeys() string {
	r := &c.Scheduler.Phase2.Redis
	names := []string{storeKey}
	if c.Store == "" {
		key, _, _ := r.url() // who opens the store has seen that it can be read
		names = []string{phase2Key + key}
	}
	names = append(names, phase2Key+".username", phase2Key+".password")
	if a, _, p := c.redisAddress(); p == nil && a.Kind == redisstore.KindSentinel {
		names = append(names, phase2Key+".sentinel_username", phase2Key+".sentinel_password")
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}

// url is the one address the section gives, and the key that gives it.
func (r *Redis) url() (key, url string, err error) {
	given := 0
	if r.URL != "" {
		given++
		key, url = ".url", r.URL
	}
	if len(r.ClusterURLs) > 0 {
		given++
		key, url = ".cluster_urls", joined("cluster", r.ClusterURLs)
	}
	if len(r.SentinelURLs) > 0 {
		given++
		key, url = ".sentinel_urls", joined("sentinel", r.SentinelURLs)+"/"+r.SentinelMaster
	}
	switch {
	case given == 0:
		return ".url", "", errors.New("it is missing, and scheduler.phase2 is enabled; give the address of Redis, such as redis://127.0.0.1:6379/0")
	case given > 1:
		return ".url", "", errors.New("give only one of url, cluster_urls and sentinel_urls")
	}
	return key, url, nil
}

// joined makes one address of many: redis-cluster://a,b of redis://a and redis://b.
func joined(kind string, urls []string) string {
	scheme := "redis"
	hosts := make([]string, len(urls))
	for i, u := range urls {
		before, host, ok := strings.Cut(u, "://")
		if !ok {
			host = u
		} else {
			scheme = before
		}
		hosts[i] = strings.TrimSuffix(host, "/")
	}
	return scheme + "-" + kind + "://" + strings.Join(hosts, ",")
}
