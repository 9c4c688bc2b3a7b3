package scheduler

import (
	"net/http"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/tlsfile"
	"github.com/lingua-scheduler/lingua/internal/tracing"
)

// newTracer makes the tracer of an instance; nil if tracing is off.
func (s *Scheduler) newTracer(c *config.Tracing, instance core.InstanceID) (*tracing.Tracer, error) {
	if c.Endpoint == "" {
		return nil, nil //nolint:nilnil // a nil tracer is off
	}
	secure, err := tlsfile.ClientConfig(c.TLSCA)
	if err != nil {
		return nil, err
	}
	return tracing.New(tracing.Options{
		URL: c.Endpoint, Header: c.TokenHeader, Token: c.Token, SampleRatio: c.SampleRatio, Timeout: c.TimeoutMS.Duration(),
		Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: secure, ForceAttemptHTTP2: true},
		Instance:  instance, Version: s.version, Clock: s.Store.Clock,
		Exported: s.Metrics.SpansExported, Dropped: s.Metrics.SpansDropped, Log: s.log,
	}), nil
}
