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
	Server string `help:"The scheduler's address; LINGUA_URL stands for it." default:"http://127.0.0.1:5010" placeholder:"URL"`
	Ready  bool   `help:"Also ask whether new work should go there: no while it stops, or while the shared store does not answer."`
}

// healthWithin is how long an answer may take. Whoever asks does so every few seconds.
const healthWithin = 2 * time.Second

// Run asks, without a credential, as a container's health check does: there is nothing else in the image to do it.
func (c *healthCmd) Run(ctx context.Context, io streams) error {
	base, err := (&remote{Server: c.Server}).address()
	if err != nil {
		return err
	}
	path := "/healthz"
	if c.Ready {
		path = "/readyz"
	}
	ctx, cancel := context.WithTimeout(ctx, healthWithin)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base.String()+path, nil)
	if err != nil {
		return usageError{err}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return &unreachableError{url: base.Redacted(), cause: err}
	}
	defer resp.Body.Close()
	var said wire.ReadyResponse
	switch err := json.NewDecoder(resp.Body).Decode(&said); {
	case resp.StatusCode == http.StatusOK && err == nil:
		fmt.Fprintln(io.out, "ok")
		return nil
	case said.Reason != "":
		return errors.New("not ready: " + said.Reason)
	}
	return fmt.Errorf("%s answered %s", base.Redacted(), resp.Status)
}
