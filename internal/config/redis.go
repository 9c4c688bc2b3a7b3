package config

import (
	"errors"
	"strings"

	"github.com/lingua-scheduler/lingua/internal/auth"
	"github.com/lingua-scheduler/lingua/internal/store/redisstore"
)

// Phase2 configures several scheduler instances that share one fleet.
type Phase2 struct {
	Enabled             bool    `toml:"enabled" env:"ENABLED" doc:"Store state in Redis, so that any number of instances share one fleet. store wins over it."`
	InstanceID          string  `toml:"instance_id" env:"INSTANCE_ID" doc:"The id of this instance; auto makes one."`
	HeartbeatTTLSeconds Seconds `toml:"heartbeat_ttl_seconds" env:"HEARTBEAT_TTL_SECONDS" doc:"How long an instance that sends no heartbeat counts as present. It sends three in this time, and grants no slots if none succeeded for two thirds of it. More than 60 counts as 60."`
	StreamBlockMS       Millis  `toml:"stream_block_ms" env:"STREAM_BLOCK_MS" doc:"How long one read waits for messages of other instances."`
	DLQTTLSeconds       Seconds `toml:"dlq_ttl_seconds" env:"DLQ_TTL_SECONDS" doc:"How long the dead letters of an instance are kept after the newest of them."`
	Redis               Redis   `toml:"redis" envPrefix:"REDIS_"`
}

// Redis is the address of Redis and the credentials for it. Only one of url, cluster_urls and sentinel_urls may be set.
type Redis struct {
	URL              string   `toml:"url" env:"URL" doc:"redis://host:6379/0, or rediss:// for TLS. Also redis-sentinel:// and redis-cluster://, with several hosts."`
	ClusterURLs      []string `toml:"cluster_urls" env:"CLUSTER_URLS" doc:"Instead of url: some servers of a cluster, each redis://host:6379."`
	SentinelURLs     []string `toml:"sentinel_urls" env:"SENTINEL_URLS" doc:"Instead of url: the sentinels, each redis://host:26379."`
	SentinelMaster   string   `toml:"sentinel_master" env:"SENTINEL_MASTER" doc:"The name of the primary at the sentinels."`
	Username         string   `toml:"username" env:"USERNAME" doc:"User name for Redis, if the URL has none."`
	Password         string   `toml:"password" env:"PASSWORD" doc:"Password for Redis, if the URL has none."`
	SentinelUsername string   `toml:"sentinel_username" env:"SENTINEL_USERNAME" doc:"User name for the sentinels, if they require one."`
	SentinelPassword string   `toml:"sentinel_password" env:"SENTINEL_PASSWORD" doc:"Password for the sentinels, if they require one."`
	TLSCA            string   `toml:"tls_ca" env:"TLS_CA" doc:"A file with the authorities, in PEM, that are trusted for Redis over TLS (rediss://). Empty: those of the system."`
	KeyPrefix        string   `toml:"key_prefix" env:"KEY_PREFIX" doc:"Begins every key, so that several fleets can share a Redis."`
}

const (
	memoryStore = "memory"
	storeKey    = "store"
	redisKey    = phase2Key + ".redis"
)

// RedisAddress returns the address of Redis; false if state is stored in this process.
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
	case c.Store == memoryStore, c.Store == "" && !c.Scheduler.Phase2.Enabled:
		return redisstore.Address{}, false, nil
	case c.Store == "":
		var err error
		if key, url, err = r.url(); err != nil {
			return redisstore.Address{}, true, &problem{key: redisKey + key, text: err.Error()}
		}
	}
	a, err := redisstore.ParseAddress(url)
	if err != nil {
		text := err.Error()
		if key == storeKey {
			text = strings.Replace(text, "; use ", "; use memory, ", 1)
		} else {
			key = redisKey + key
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
	if r.TLSCA != "" {
		cfg, err := auth.ClientTLS(r.TLSCA)
		if err != nil {
			return a, true, &problem{key: redisKey + ".tls_ca", text: err.Error()}
		}
		a.Authorities = cfg.RootCAs
	}
	return a, true, nil
}

// RedisKeys lists the keys that set the address of Redis and its credentials, for errors.
func (c *Config) RedisKeys() string {
	r := &c.Scheduler.Phase2.Redis
	names := []string{storeKey}
	if c.Store == "" {
		key, _, _ := r.url() // the configuration is validated
		names = []string{redisKey + key}
	}
	names = append(names, redisKey+".username", redisKey+".password")
	if a, _, p := c.redisAddress(); p == nil && a.Kind == redisstore.KindSentinel {
		names = append(names, redisKey+".sentinel_username", redisKey+".sentinel_password")
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}

// url returns the one address that is set, as a URL, and the key that sets it.
func (r *Redis) url() (key, url string, err error) {
	count := 0
	if r.URL != "" {
		count++
		key, url = ".url", r.URL
	}
	if len(r.ClusterURLs) > 0 {
		count++
		key, url = ".cluster_urls", joinURLs("cluster", r.ClusterURLs)
	}
	if len(r.SentinelURLs) > 0 {
		count++
		key, url = ".sentinel_urls", joinURLs("sentinel", r.SentinelURLs)+"/"+r.SentinelMaster
	}
	switch {
	case count == 0:
		return ".url", "", errors.New("is missing, and scheduler.phase2 is enabled; set the address of Redis, such as " +
			"redis://127.0.0.1:6379/0")
	case count > 1:
		return ".url", "", errors.New("set only one of url, cluster_urls and sentinel_urls")
	}
	return key, url, nil
}

// joinURLs makes one URL of several: redis-cluster://a,b of redis://a and redis://b.
func joinURLs(kind string, urls []string) string {
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
