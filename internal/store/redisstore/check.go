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
	minMajorVersion = 7                      // the first major version with everything that the scripts need
	maxClockSkew    = 500 * time.Millisecond // a larger difference of clocks is warned about
	checkTimeout    = 5 * time.Second        // of all checks together
)

// check refuses a Redis that cannot keep the promises of a store, with an error that says how to fix it, and warns about settings that
// weaken them.
func check(ctx context.Context, redis rueidis.Client, o *Options) error {
	ctx, cancel := context.WithTimeout(ctx, max(checkTimeout, openAttempts*o.Timeout))
	defer cancel()
	for addr, server := range redis.Nodes() {
		info, err := server.Do(ctx, server.B().Info().Build()).ToString()
		if reply, ok := rueidis.IsRedisErr(err); ok && strings.HasPrefix(reply.Error(), "NOPERM") {
			return permissionError(addr, reply.Error())
		}
		if err != nil {
			return fmt.Errorf("Redis at %s does not answer (%w); is it running, and are user and password right?", addr,
				err)
		}
		facts := parseInfo(info)
		if o.Address.Kind != KindStandalone && facts["role"] != "master" {
			continue // a replica has the settings of its primary when it is promoted
		}
		if err := checkServer(addr, facts, o.Address.Kind); err != nil {
			return err
		}
		warnReplication(o.Log, addr, facts)
		if err := checkClock(ctx, o.Log, addr, server); err != nil {
			return err
		}
	}
	if o.Address.Kind == KindCluster {
		return checkCluster(ctx, redis)
	}
	return nil
}

// connectError says why no connection could be established, and what to check.
func connectError(a Address, err error) error {
	if reply, ok := rueidis.IsRedisErr(err); ok {
		switch text := reply.Error(); {
		case strings.HasPrefix(text, "NOAUTH"):
			return fmt.Errorf("cannot log in to Redis at %s: it requires a password; give it in the URL or as "+
				"scheduler.phase2.redis.password", a)
		case strings.HasPrefix(text, "WRONGPASS"):
			return fmt.Errorf("cannot log in to Redis at %s: it refuses this user or password", a)
		case strings.HasPrefix(text, "NOPERM"):
			return permissionError(a.String(), text)
		}
	}
	return fmt.Errorf("cannot reach Redis at %s: %w; is it running there, and of that kind?", a, err)
}

// permissionError names the command that a user may not run, as Redis does.
func permissionError(addr, reply string) error {
	return fmt.Errorf("the user for Redis at %s lacks a permission (%s): allow it the commands of deploy/redis/commands", addr, reply)
}

// parseInfo parses the reply of INFO or CLUSTER INFO.
func parseInfo(info string) map[string]string {
	facts := make(map[string]string)
	for line := range strings.Lines(strings.TrimPrefix(info, "txt:")) { // the prefix of a verbatim string
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			facts[name] = value
		}
	}
	return facts
}

// checkServer refuses a server with unsuitable settings.
func checkServer(addr string, facts map[string]string, kind Kind) error {
	version := facts["redis_version"]
	if v, ok := facts["valkey_version"]; ok {
		version = v
	}
	major, _, _ := strings.Cut(version, ".")
	switch n, _ := strconv.Atoi(major); {
	case n < minMajorVersion:
		return fmt.Errorf("Redis at %s is version %s; use version %d or newer, or Valkey", addr, version,
			minMajorVersion)
	case facts["maxmemory_policy"] != "noeviction":
		return fmt.Errorf("Redis at %s evicts keys when it is full (maxmemory-policy %s), and jobs with them; set maxmemory-policy to "+
			"noeviction", addr, facts["maxmemory_policy"])
	case facts["role"] != "master":
		return fmt.Errorf("Redis at %s is a replica of %s:%s and takes no writes; name the primary, or use redis-sentinel://", addr,
			facts["master_host"], facts["master_port"])
	case facts["cluster_enabled"] == "1" && kind != KindCluster:
		return fmt.Errorf("Redis at %s is part of a cluster; use redis-cluster://%s", addr, addr)
	}
	return nil
}

// warnReplication warns about replicas without min-replicas-to-write.
func warnReplication(log *slog.Logger, addr string, facts map[string]string) {
	replicas, _ := strconv.Atoi(facts["connected_slaves"])
	// INFO has this field only if min-replicas-to-write is set.
	if _, set := facts["min_slaves_good_slaves"]; replicas > 0 && !set {
		log.Warn("Redis has replicas but accepts writes without one: an isolated primary would grant slots that a failover loses; set "+
			"min-replicas-to-write to 1",
			"redis", addr, "replicas", replicas)
	}
}

// checkClock warns when the clocks of Redis and of this machine differ. Nothing depends on it, but people read both.
func checkClock(ctx context.Context, log *slog.Logger, addr string, server rueidis.Client) error {
	began := time.Now()
	parts, err := server.Do(ctx, server.B().Time().Build()).AsStrSlice()
	if err != nil || len(parts) != 2 {
		return fmt.Errorf("Redis at %s does not answer TIME: %w", addr, err)
	}
	seconds, _ := strconv.ParseInt(parts[0], 10, 64)
	micros, _ := strconv.ParseInt(parts[1], 10, 64)
	middle := began.Add(time.Since(began) / 2)
	difference := time.Unix(seconds, micros*1000).Sub(middle)
	if difference.Abs() > maxClockSkew {
		log.Warn("the clocks of Redis and of this machine differ; leases expire by the clock of Redis, log lines have the time of this "+
			"machine",
			"redis", addr, "ahead_ms", difference.Milliseconds())
	}
	return nil
}

// checkCluster refuses a cluster that does not serve every slot.
func checkCluster(ctx context.Context, redis rueidis.Client) error {
	info, err := redis.Do(ctx, redis.B().ClusterInfo().Build()).ToString()
	if err != nil {
		return fmt.Errorf("the cluster does not answer: %w", err)
	}
	facts := parseInfo(info)
	if facts["cluster_state"] != "ok" {
		return fmt.Errorf("the cluster is incomplete (cluster_state %s, %s of 16384 slots are served); see redis-cli --cluster check",
			facts["cluster_state"], facts["cluster_slots_ok"])
	}
	return nil
}
