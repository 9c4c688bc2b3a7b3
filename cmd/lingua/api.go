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
	"strings"
	"text/tabwriter"
	"time"

	"github.com/lingua-scheduler/lingua/wire"
)

// remote is what every command has that asks a running scheduler.
type remote struct {
	Server string `help:"The scheduler's address." default:"http://127.0.0.1:5010" env:"LINGUA_URL" placeholder:"URL"`
	JSON   bool   `help:"Print the answer as JSON." name:"json"`
}

// unreachableError says that nobody answered.
type unreachableError struct {
	url   string
	cause error
}

func (e *unreachableError) Error() string {
	return fmt.Sprintf("no scheduler answers at %s: %s\nStart one with: lingua serve; or name another with --server or LINGUA_URL", e.url, e.cause)
}

const askTimeout = 15 * time.Second

// ask sends a request and decodes the answer into out. An error answer is returned as *wire.Error.
func (r *remote) ask(ctx context.Context, method, path string, in, out any) error {
	base, err := url.Parse(r.Server)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return usageError{fmt.Errorf("--server: %q is not a URL such as http://127.0.0.1:5010", r.Server)}
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(r.Server, "/")+path, body)
	if err != nil {
		return usageError{err}
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		var named *url.Error
		if errors.As(err, &named) {
			err = named.Err
		}
		return &unreachableError{url: r.Server, cause: err}
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return &unreachableError{url: r.Server, cause: err}
	}
	if resp.StatusCode/100 != 2 {
		e := new(wire.Error)
		if json.Unmarshal(answer, e) != nil || e.Code == "" {
			return fmt.Errorf("%s answered %s, which no Lingua Scheduler says: is it another program?", r.Server, resp.Status)
		}
		return e
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return fmt.Errorf("%s answered something that cannot be read: %w", r.Server, err)
	}
	return nil
}

// print writes the answer as JSON or, through fn, as a table.
func (r *remote) print(w io.Writer, answer any, fn func(t *tabwriter.Writer)) error {
	if r.JSON {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false)
		return enc.Encode(answer)
	}
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fn(t)
	return t.Flush()
}
