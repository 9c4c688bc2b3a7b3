package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"text/tabwriter"
	"time"

	"github.com/lingua-scheduler/lingua/wire"
)

// apiClient calls the HTTP API of a running scheduler. It holds the flags that every such command has.
type apiClient struct {
	Server string `help:"Address of the scheduler, such as 127.0.0.1:5010 or https://scheduler.internal; default from LINGUA_URL." default:"http://127.0.0.1:5010" placeholder:"URL"`
	Token  string `help:"Operator key; default from LINGUA_TOKEN." placeholder:"TOKEN"`
	trust
	JSON bool `help:"Print the response as JSON." name:"json"`
}

// unreachableError is the error of a request that got no response.
type unreachableError struct {
	url   string
	cause error
}

func (e *unreachableError) Error() string {
	return fmt.Sprintf("no scheduler responds at %s: %s\nStart one with: lingua serve; or name another with --server or LINGUA_URL", e.url,
		e.cause)
}

const requestTimeout = 15 * time.Second

// request sends in as JSON, unless it is nil, and decodes the response into out. An error response is returned as
// *wire.Error.
func (c *apiClient) request(ctx context.Context, method, path string, in, out any) error {
	return c.requestWithin(ctx, requestTimeout, method, path, in, out)
}

// requestWithin is request with another timeout.
func (c *apiClient) requestWithin(ctx context.Context, timeout time.Duration, method, path string, in, out any) error {
	base, err := parseAddress(c.Server)
	if err != nil {
		return err
	}
	shownURL := base.Redacted() // a password in the URL must not be printed
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, base.String()+path, body)
	if err != nil {
		return usageError{err}
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.Token)
	}
	resp, err := c.doRequest(req)
	if err != nil {
		var usage usageError
		if errors.As(err, &usage) {
			return err
		}
		var urlErr *url.Error
		if errors.As(err, &urlErr) {
			err = urlErr.Err // without the URL, which may hold a password
		}
		return &unreachableError{url: shownURL, cause: err}
	}
	defer resp.Body.Close()
	response, err := io.ReadAll(resp.Body)
	if err != nil {
		return &unreachableError{url: shownURL, cause: err}
	}
	if resp.StatusCode/100 != 2 {
		e := new(wire.Error)
		if json.Unmarshal(response, e) != nil || e.Code == "" {
			return fmt.Errorf("%s responded %s without an error of the Lingua Scheduler: is it another program?", shownURL, resp.Status)
		}
		return e
	}
	if err := json.Unmarshal(response, out); err != nil {
		return fmt.Errorf("%s sent a response that cannot be decoded: %w", shownURL, err)
	}
	return nil
}

// show sends a request and prints the response, as JSON or, through write, as a table.
func show[T any](ctx context.Context, c *apiClient, io streams, method, path string, in any, write func(*tabwriter.Writer, *T)) error {
	var out T
	if err := c.request(ctx, method, path, in, &out); err != nil {
		return err
	}
	return c.print(io.out, out, func(t *tabwriter.Writer) { write(t, &out) })
}

// print writes a response as JSON or, through writeTable, as a table.
func (c *apiClient) print(w io.Writer, response any, writeTable func(t *tabwriter.Writer)) error {
	if c.JSON {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false)
		return enc.Encode(response)
	}
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	writeTable(t)
	return t.Flush()
}
