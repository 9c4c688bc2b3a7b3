package scheduler

import (
	"context"
	"net/http"
	"time"

	"github.com/lingua-scheduler/lingua/internal/auth"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
	"github.com/lingua-scheduler/lingua/internal/tracing"
)

// newTracer makes the tracer of an instance; nil if tracing is off.
func (s *Scheduler) newTracer() (*tracing.Tracer, error) {
	c := &s.cfg.Scheduler.Tracing
	if c.Endpoint == "" {
		return nil, nil //nolint:nilnil // a nil tracer is off
	}
	secure, err := auth.ClientTLS(c.TLSCA)
	if err != nil {
		return nil, err
	}
	return tracing.New(tracing.Options{
		URL: c.Endpoint, Header: c.TokenHeader, Token: c.Token, SampleRatio: c.SampleRatio, Timeout: c.TimeoutMS.Duration(),
		Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: secure, ForceAttemptHTTP2: true},
		Instance:  s.instance, Version: s.version.Version,
		Clock: func(id core.JobID) time.Time { // the store is not open yet
			now, _ := s.Store.Clock(context.Background(), store.ClockKey{Job: id}) //nolint:forbidigo // it is estimated, without a call
			return now
		},
		Exported: s.Metrics.SpansExported, Dropped: s.Metrics.SpansDropped, Log: s.log,
	}), nil
}

// ExportTraces exports the traces of this instance until the context ends. Run does it.
func (s *Scheduler) ExportTraces(ctx context.Context) { s.tracer.Run(ctx) }
