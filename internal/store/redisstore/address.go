package redisstore

import (
	"crypto/tls"
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

// Address says where Redis is and how to enter.
type Address struct {
	Kind     Kind
	Hosts    []string // host:port of the server, of the sentinels, or of some nodes of the cluster
	Master   string   // the name by which sentinels know the primary
	DB       int
	Username string
	Password string
	TLS      bool
	// SentinelUsername and SentinelPassword open the sentinels, if they are closed.
	SentinelUsername, SentinelPassword string
}

const usage = "use redis://host:6379/0, rediss:// for TLS, redis-sentinel://host:26379,host:26379/master/0 or redis-cluster://host:6379,host:6379"

// ParseAddress reads a URL. Errors name what is wrong with it and never show a password.
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

// userinfo reads user:password. A password alone, before the @, is one too.
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

// path reads what follows the hosts: the database, and for sentinels the name of the primary before it.
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

// String is the address without anything secret.
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

const (
	dialWithin  = 400 * time.Millisecond
	writeWithin = time.Second // and a connection on which nothing comes back for so long is dead
)

// options is the address for the client. It must never repeat a write by itself: whoever asked decides that.
func (a Address) options() rueidis.ClientOption {
	o := rueidis.ClientOption{
		InitAddress: a.Hosts, Username: a.Username, Password: a.Password, SelectDB: a.DB, ClientName: "lingua",
		Dialer:           net.Dialer{Timeout: dialWithin, KeepAlive: time.Second},
		ConnWriteTimeout: writeWithin, RingScaleEachConn: ringScale,
		ReadBufferEachConn: 64 << 10, WriteBufferEachConn: 64 << 10,
		DisableCache: true, DisableRetry: true, MaxFlushDelay: 20 * time.Microsecond,
		PipelineMultiplex: -1, // one connection: what many callers ask at once goes out, and comes back, in one go
		ForceSingleClient: a.Kind == KindStandalone,
	}
	if a.TLS {
		o.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12}
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
