package redistest

import "fmt"

// blueprint is how a server is to be: the lines of its redis.conf but for where it listens, the flags of its
// command line, a command to run after each start, and whether it is the node of a cluster.
type blueprint struct {
	settings  []setting
	flags     []string
	first     []string
	clustered bool
}

type setting struct{ key, value string }

// Option changes how a server is started.
type Option func(*blueprint)

// WithConfig adds a line to redis.conf; the value is written as it would be there.
func WithConfig(key, value string) Option {
	return func(b *blueprint) { b.settings = append(b.settings, setting{key, value}) }
}

// diskless keeps all data in memory: tests want a killed server to forget.
func diskless() []setting {
	return []setting{{"save", `""`}, {"appendonly", "no"}}
}

// replicated lets replicas catch up quickly: without a file on the way, and without waiting for others to join.
func replicated() []setting {
	return append(diskless(),
		setting{"repl-diskless-sync", "yes"},
		setting{"repl-diskless-sync-delay", "0"},
		setting{"repl-ping-replica-period", "1"},
	)
}

// config is the text of redis.conf. The bus of a cluster gets a port of its own: the usual one, 10000 higher, may
// be anybody's.
func (s *Server) config() []byte {
	text := fmt.Appendf(nil, "bind 127.0.0.1\nport %d\ndir %q\n", s.port, s.dir)
	if s.blue.clustered {
		text = fmt.Appendf(text, "cluster-enabled yes\ncluster-port %d\n", s.bus)
	}
	for _, line := range s.blue.settings {
		text = fmt.Appendf(text, "%s %s\n", line.key, line.value)
	}
	return text
}
