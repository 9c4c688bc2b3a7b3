package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/lingua-scheduler/lingua/wire"
)

type healthCmd struct {
	Server string `help:"Address of the scheduler; default from LINGUA_URL." default:"http://127.0.0.1:5010" placeholder:"URL"`
	trust
	Ready bool `help:"Check that it accepts new work: not while it shuts down, nor while the shared store is unavailable."`
}

// healthTimeout bounds one check; health checks are repeated every few seconds. On a busy machine tests need more.
var healthTimeout = 2 * time.Second

// Run checks the scheduler, without a credential. It is the health check of the container image, which has no curl.
func (c *healthCmd) Run(ctx context.Context, io streams) error {
	base, err := parseAddress(c.Server)
	if err != nil {
		return err
	}
	path := "/healthz"
	if c.Ready {
		path = "/readyz"
	}
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base.String()+path, nil)
	if err != nil {
		return usageError{err}
	}
	resp, err := c.doRequest(req)
	var usage usageError
	switch {
	case errors.As(err, &usage):
		return err
	case err != nil:
		return &unreachableError{url: base.Redacted(), cause: err}
	}
	defer resp.Body.Close()
	var ready wire.ReadyResponse
	switch err := json.NewDecoder(resp.Body).Decode(&ready); {
	case resp.StatusCode == http.StatusOK && err == nil:
		fmt.Fprintln(io.out, "ok")
		return nil
	case ready.Reason != "":
		return errors.New("not ready: " + ready.Reason)
	}
	return fmt.Errorf("%s responded %s", base.Redacted(), resp.Status)
}
