package redisstore

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

const (
	oldest   = 7                      // the major version from which on all scripts work
	muchSkew = 500 * time.Millisecond // a difference of clocks worth a warning
	checkFor = 5 * time.Second        // how long the checks may take altogether
)

// check refuses a Redis that cannot keep the promises, with a sentence that says how to mend it, and warns of one that
// keeps fewer than it could.
func check(ctx context.Context, redis rueidis.Client, o *Options) error {
	ctx, cancel := context.WithTimeout(ctx, checkFor)
	defer cancel()
	for addr, server := range redis.Nodes() {
		info, err := server.Do(ctx, server.B().Info().Build()).ToString()
		if err != nil {
			return fmt.Errorf("Redis at %s does not answer (%w); is it running, and are user and password right?", addr, err) //nolint:staticcheck // it is a name
		}
		facts := factsOf(info)
		if o.Address.Kind != KindStandalone && facts["role"] != "master" {
			continue // a replica is judged when it is promoted, by its primary's settings
		}
		if err := judge(addr, facts, o.Address.Kind); err != nil {
			return err
		}
		warn(o.Log, addr, facts)
		if err := skew(ctx, o.Log, addr, server); err != nil {
			return err
		}
	}
	if o.Address.Kind == KindCluster {
		return checkCluster(ctx, redis)
	}
	return nil
}

// unreachable says why no connection could be made, and what to look at.
func unreachable(a Address, err error) error {
	if reply, ok := rueidis.IsRedisErr(err); ok {
		switch text := reply.Error(); {
		case strings.HasPrefix(text, "NOAUTH"):
			return fmt.Errorf("cannot enter Redis at %s: it asks for a password; give it in the URL or as scheduler.phase2.redis.password", a)
		case strings.HasPrefix(text, "WRONGPASS"), strings.HasPrefix(text, "NOPERM"):
			return fmt.Errorf("cannot enter Redis at %s: it refuses this user or password", a)
		}
	}
	return fmt.Errorf("cannot reach Redis at %s: %w; is it running there, and of that kind?", a, err)
}

// factsOf reads what INFO and CLUSTER INFO say.
func factsOf(info string) map[string]string {
	facts := make(map[string]string)
	for line := range strings.Lines(strings.TrimPrefix(info, "txt:")) { // a verbatim string says first that it is text
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			facts[name] = value
		}
	}
	return facts
}

// judge says what is wrong with one server.
func judge(addr string, facts map[string]string, kind Kind) error {
	version := facts["redis_version"]
	if v, ok := facts["valkey_version"]; ok {
		version = v
	}
	major, _, _ := strings.Cut(version, ".")
	switch n, _ := strconv.Atoi(major); {
	case n < oldest:
		return fmt.Errorf("Redis at %s is version %s; use version %d or newer, or Valkey", addr, version, oldest) //nolint:staticcheck // it is a name
	case facts["maxmemory_policy"] != "noeviction":
		return fmt.Errorf("Redis at %s evicts keys when it is full (maxmemory-policy %s), and jobs with them; set maxmemory-policy to noeviction", addr, facts["maxmemory_policy"]) //nolint:staticcheck // it is a name
	case facts["role"] != "master":
		return fmt.Errorf("Redis at %s is a replica of %s:%s and takes no writes; name the primary, or use redis-sentinel://", addr, facts["master_host"], facts["master_port"]) //nolint:staticcheck // it is a name
	case facts["cluster_enabled"] == "1" && kind != KindCluster:
		return fmt.Errorf("Redis at %s is part of a cluster; use redis-cluster://%s", addr, addr) //nolint:staticcheck // it is a name
	}
	return nil
}

// warn says what could be lost that need not be.
func warn(log *slog.Logger, addr string, facts map[string]string) {
	replicas, _ := strconv.Atoi(facts["connected_slaves"])
	// INFO tells how many replicas keep up only if min-replicas-to-write is set.
	if _, set := facts["min_slaves_good_slaves"]; replicas > 0 && !set {
		log.Warn("Redis has replicas but writes without waiting for any to be there; a primary that is cut off would grant slots that are then forgotten: set min-replicas-to-write to 1",
			"redis", addr, "replicas", replicas)
	}
}

// skew compares clocks. Nothing depends on them being equal, but people read both.
func skew(ctx context.Context, log *slog.Logger, addr string, server rueidis.Client) error {
	began := time.Now()
	parts, err := server.Do(ctx, server.B().Time().Build()).AsStrSlice()
	if err != nil || len(parts) != 2 {
		return fmt.Errorf("Redis at %s does not tell the time: %w", addr, err) //nolint:staticcheck // it is a name
	}
	seconds, _ := strconv.ParseInt(parts[0], 10, 64)
	micros, _ := strconv.ParseInt(parts[1], 10, 64)
	middle := began.Add(time.Since(began) / 2)
	difference := time.Unix(seconds, micros*1000).Sub(middle)
	if difference.Abs() > muchSkew {
		log.Warn("the clock of Redis and this machine's differ; leases are judged by that of Redis, logs are written by this one",
			"redis", addr, "ahead_ms", difference.Milliseconds())
	}
	return nil
}

// checkCluster makes sure that every slot is served.
func checkCluster(ctx context.Context, redis rueidis.Client) error {
	info, err := redis.Do(ctx, redis.B().ClusterInfo().Build()).ToString()
	if err != nil {
		return fmt.Errorf("the cluster does not answer: %w", err)
	}
	facts := factsOf(info)
	if facts["cluster_state"] != "ok" {
		return fmt.Errorf("the cluster is not whole (cluster_state %s, %s of 16384 slots are served); see redis-cli --cluster check",
			facts["cluster_state"], facts["cluster_slots_ok"])
	}
	return nil
}
