package redisstore

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// Kind is how Redis is deployed.
type Kind uint8

// The kinds of deployment.
const (
	KindStandalone Kind = iota + 1
	KindSentinel
	KindCluster
)

// Address says where Redis is and how to log in.
type Address struct {
	Kind     Kind
	Hosts    []string // host:port of the server, of the sentinels, or of some nodes of the cluster
	Master   string   // the name of the primary in the sentinels
	DB       int
	Username string
	Password string
	TLS      bool
	// Authorities are trusted for TLS; nil: those of the system.
	Authorities *x509.CertPool
	// SentinelUsername and SentinelPassword log in to the sentinels, if they require it.
	SentinelUsername, SentinelPassword string
}

const usage = "use redis://host:6379/0, rediss:// for TLS, redis-sentinel://host:26379,host:26379/master/0 or " +
	"redis-cluster://host:6379,host:6379"

// ParseAddress parses a URL. Errors never contain a password.
func ParseAddress(text string) (Address, error) {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		return Address{}, errors.New("it has no scheme; " + usage)
	}
	a := Address{TLS: strings.HasPrefix(scheme, "rediss")}
	switch scheme {
	case "redis", "rediss":
		a.Kind = KindStandalone
	case "redis-sentinel", "rediss-sentinel":
		a.Kind = KindSentinel
	case "redis-cluster", "rediss-cluster":
		a.Kind = KindCluster
	default:
		return Address{}, fmt.Errorf("%q is not a scheme it knows; %s", scheme, usage)
	}
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		user, err := userinfo(rest[:i])
		if err != nil {
			return Address{}, err
		}
		a.Username = user.Username()
		a.Password, _ = user.Password()
		rest = rest[i+1:]
	}
	hosts, path, _ := strings.Cut(rest, "/")
	port := "6379"
	if a.Kind == KindSentinel {
		port = "26379"
	}
	for _, host := range strings.Split(hosts, ",") {
		at, err := hostPort(host, port)
		if err != nil {
			return Address{}, err
		}
		a.Hosts = append(a.Hosts, at)
	}
	err := a.path(path)
	return a, err
}

// userinfo parses user:password.
func userinfo(text string) (*url.Userinfo, error) {
	u, err := url.Parse("redis://" + text + "@host")
	if err != nil {
		return nil, errors.New("the user or password before the @ cannot be read; write special characters as %XX")
	}
	return u.User, nil
}

func hostPort(host, port string) (string, error) {
	if host == "" {
		return "", errors.New("a host is missing; " + usage)
	}
	if !strings.Contains(strings.TrimPrefix(host, "["), ":") || strings.HasSuffix(host, "]") {
		return net.JoinHostPort(strings.Trim(host, "[]"), port), nil
	}
	name, number, err := net.SplitHostPort(host)
	if err != nil || name == "" {
		return "", fmt.Errorf("%q is not host:port", host)
	}
	if n, err := strconv.Atoi(number); err != nil || n < 1 || n > 65535 {
		return "", fmt.Errorf("%q is not a port", number)
	}
	return host, nil
}

// path parses what follows the hosts: the database, and for sentinels the name of the primary before it.
func (a *Address) path(path string) error {
	db := path
	switch a.Kind {
	case KindSentinel:
		a.Master, db, _ = strings.Cut(path, "/")
		if a.Master == "" {
			return errors.New("the name of the primary is missing; " + usage)
		}
	case KindCluster:
		if strings.Trim(path, "/0") != "" {
			return errors.New("a cluster has only database 0; leave out what follows the hosts")
		}
		return nil
	}
	if db = strings.TrimSuffix(db, "/"); db == "" {
		return nil
	}
	n, err := strconv.Atoi(db)
	if err != nil || n < 0 {
		return fmt.Errorf("%q is not the number of a database", db)
	}
	a.DB = n
	return nil
}

// String returns the address without secrets.
func (a Address) String() string {
	schemes := map[Kind]string{KindStandalone: "redis", KindSentinel: "redis-sentinel", KindCluster: "redis-cluster"}
	scheme := schemes[a.Kind]
	if a.TLS {
		scheme = strings.Replace(scheme, "redis", "rediss", 1)
	}
	text := scheme + "://" + strings.Join(a.Hosts, ",")
	if a.Kind == KindSentinel {
		text += "/" + a.Master
	}
	if a.DB != 0 {
		text += "/" + strconv.Itoa(a.DB)
	}
	return text
}

// connTimeouts are the limits of a connection to Redis.
type connTimeouts struct {
	dial   time.Duration
	silent time.Duration // a connection on which nothing comes back for so long is closed
}

// connTimeoutsFor returns the limits of the connections of a store whose calls may take as long as call. A user who accepts slower
// answers of Redis accepts slower connections too.
func connTimeoutsFor(call time.Duration) connTimeouts {
	dial := max(400*time.Millisecond, call)
	return connTimeouts{dial: dial, silent: dial * 5 / 2}
}

// options returns the options of the Redis client. The client must never repeat a write by itself: the caller decides that.
func (a Address) options(t connTimeouts) rueidis.ClientOption {
	o := rueidis.ClientOption{
		InitAddress: a.Hosts, Username: a.Username, Password: a.Password, SelectDB: a.DB, ClientName: "lingua",
		Dialer:           net.Dialer{Timeout: t.dial},
		ConnWriteTimeout: t.silent, RingScaleEachConn: ringScale,
		ReadBufferEachConn: 64 << 10, WriteBufferEachConn: 64 << 10,
		DisableCache: true, DisableRetry: true, MaxFlushDelay: 20 * time.Microsecond,
		ClientSetInfo:     rueidis.DisableClientSetInfo, // the Redis user of a deployment may run only what the store needs
		PipelineMultiplex: -1,                           // one connection: the commands of concurrent callers share packets
		ForceSingleClient: a.Kind == KindStandalone,
	}
	if a.TLS {
		o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: a.Authorities}
	}
	if a.Kind == KindSentinel {
		o.Sentinel = rueidis.SentinelOption{
			MasterSet: a.Master, Username: a.SentinelUsername, Password: a.SentinelPassword,
			Dialer: o.Dialer, TLSConfig: o.TLSConfig, TopologyRefreshInterval: time.Second,
		}
	}
	if a.Kind == KindCluster {
		o.ClusterOption = rueidis.ClusterOption{ShardsRefreshInterval: time.Second}
	}
	return o
}
