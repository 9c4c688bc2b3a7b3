package redisstore

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/lingua-scheduler/lingua/internal/store"
)

var modeNames = map[Kind]string{KindStandalone: "standalone", KindSentinel: "sentinel", KindCluster: "cluster"}

// Inspect implements store.Inspector. It asks every server that the client library knows, and the primaries for their replicas. Permits and
// the breaker are left alone: what is wrong with one server must neither hinder other calls nor be hidden by them.
func (s *Store) Inspect(ctx context.Context) store.Inspection {
	out := store.Inspection{Mode: modeNames[s.kind]}
	var owners map[string]string
	if s.kind == KindCluster {
		owners = readSlots(ctx, s.client.redis)
	}
	known := s.client.redis.Nodes()
	asked := make(chan inspected, len(known))
	var asking sync.WaitGroup
	for addr, server := range known {
		asking.Go(func() { asked <- inspectServer(ctx, addr, server) })
	}
	asking.Wait()
	close(asked)
	replicas := make(map[string]store.Server)
	for i := range asked {
		if slots, primary := owners[i.Address]; primary || s.kind != KindCluster {
			i.Slots = slots
			i.Primary = i.Primary || i.Ping == 0 // one that does not answer is what it was
		}
		out.Servers = append(out.Servers, i.Server)
		for _, r := range i.replicas {
			replicas[r.Address] = r
		}
	}
	for i := range out.Servers {
		if r, ok := replicas[out.Servers[i].Address]; ok {
			out.Servers[i].Lag = r.Lag
			delete(replicas, r.Address)
		}
	}
	for _, r := range replicas {
		out.Servers = append(out.Servers, r)
	}
	slices.SortFunc(out.Servers, func(a, b store.Server) int { return cmp.Compare(a.Address, b.Address) })
	return out
}

// inspected is a server, with the replicas that it knows.
type inspected struct {
	store.Server
	replicas []store.Server
}

// inspectServer asks one server.
func inspectServer(ctx context.Context, addr string, server rueidis.Client) inspected {
	out := inspected{Server: store.Server{Address: addr, Lag: -1}}
	began := time.Now()
	if server.Do(ctx, server.B().Ping().Build()).Error() != nil {
		return out
	}
	out.Ping = time.Since(began)
	info, err := server.Do(ctx, server.B().Info().Build()).ToString()
	if err != nil {
		return out
	}
	facts := parseInfo(info)
	number := func(name string) int64 {
		n, _ := strconv.ParseInt(facts[name], 10, 64)
		return n
	}
	out.Primary = facts["role"] == "master"
	out.Healthy = out.Primary || facts["master_link_status"] == "up"
	out.Version, out.Policy = cmp.Or(facts["valkey_version"], facts["redis_version"]), facts["maxmemory_policy"]
	out.Used, out.Max = number("used_memory"), number("maxmemory")
	out.Uptime, out.Clients = time.Duration(number("uptime_in_seconds"))*time.Second, int(number("connected_clients"))
	if out.Primary {
		out.replicas = parseReplicas(facts)
	}
	return out
}

// parseReplicas returns the replicas in the reply of a primary to INFO: slave0:ip=10.0.0.2,port=6379,state=online,offset=1234,lag=0.
func parseReplicas(facts map[string]string) (list []store.Server) {
	written, err := strconv.ParseInt(facts["master_repl_offset"], 10, 64)
	for i := 0; ; i++ {
		line, ok := facts[fmt.Sprint("slave", i)]
		if !ok {
			return list
		}
		about := make(map[string]string)
		for part := range strings.SplitSeq(line, ",") {
			name, value, _ := strings.Cut(part, "=")
			about[name] = value
		}
		if about["ip"] == "" || about["port"] == "" {
			continue
		}
		r := store.Server{Address: net.JoinHostPort(about["ip"], about["port"]), Healthy: about["state"] == "online", Lag: -1}
		if offset, e := strconv.ParseInt(about["offset"], 10, 64); e == nil && err == nil {
			r.Lag = max(0, written-offset)
		}
		list = append(list, r)
	}
}

// readSlots returns the slots of each primary of a cluster by its address; none if no server answers.
func readSlots(ctx context.Context, redis rueidis.Client) map[string]string {
	owners := make(map[string]string)
	ranges, err := redis.Do(ctx, redis.B().ClusterSlots().Build()).ToArray()
	if err != nil {
		return owners
	}
	for _, r := range ranges {
		parts, err := r.ToArray()
		if err != nil || len(parts) < 3 {
			continue
		}
		first, errFirst := parts[0].AsInt64()
		last, errLast := parts[1].AsInt64()
		primary, err := parts[2].ToArray()
		if errFirst != nil || errLast != nil || err != nil || len(primary) < 2 {
			continue
		}
		host, errHost := primary[0].ToString()
		port, errPort := primary[1].AsInt64()
		if errHost != nil || errPort != nil {
			continue
		}
		text := strconv.FormatInt(first, 10)
		if last != first {
			text += "-" + strconv.FormatInt(last, 10)
		}
		addr := net.JoinHostPort(host, strconv.FormatInt(port, 10))
		if before := owners[addr]; before != "" {
			text = before + "," + text
		}
		owners[addr] = text
	}
	return owners
}
