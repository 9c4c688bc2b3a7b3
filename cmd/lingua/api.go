package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/lingua-scheduler/lingua/wire"
)

// remote is what every command has that asks a running scheduler.
type remote struct {
	Server string `help:"The scheduler's address, such as 127.0.0.1:5010 or https://scheduler.internal; LINGUA_URL stands for it." default:"http://127.0.0.1:5010" placeholder:"URL"`
	Token  string `help:"An operator's key; LINGUA_TOKEN stands for it." placeholder:"TOKEN"`
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

// address is where to ask.
func (r *remote) address() (*url.URL, error) { return addressOf(r.Server) }

// addressOf reads an address: a URL, or a host and a port, which means http.
func addressOf(text string) (*url.URL, error) {
	given := strings.TrimSuffix(text, "/")
	if _, _, err := net.SplitHostPort(given); err == nil && !strings.Contains(given, "/") {
		given = "http://" + given
	}
	base, err := url.Parse(given)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, usageError{fmt.Errorf("--server or LINGUA_URL: %q is not an address such as http://127.0.0.1:5010", text)}
	}
	return base, nil
}

const askTimeout = 15 * time.Second

// ask sends a request and decodes the answer into out. An error answer is returned as *wire.Error.
func (r *remote) ask(ctx context.Context, method, path string, in, out any) error {
	base, err := r.address()
	if err != nil {
		return err
	}
	named := base.Redacted() // a password in it is not for the screen
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
	req, err := http.NewRequestWithContext(ctx, method, base.String()+path, body)
	if err != nil {
		return usageError{err}
	}
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if r.Token != "" {
		req.Header.Set("Authorization", "Bearer "+r.Token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		var failed *url.Error
		if errors.As(err, &failed) {
			err = failed.Err
		}
		return &unreachableError{url: named, cause: err}
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return &unreachableError{url: named, cause: err}
	}
	if resp.StatusCode/100 != 2 {
		e := new(wire.Error)
		if json.Unmarshal(answer, e) != nil || e.Code == "" {
			return fmt.Errorf("%s answered %s, which no Lingua Scheduler says: is it another program?", named, resp.Status)
		}
		return e
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return fmt.Errorf("%s answered something that cannot be read: %w", named, err)
	}
	return nil
}

// quoted is a text of somebody else as it may be shown: what is not printable could be an order to the terminal.
func quoted(text string) string {
	var b strings.Builder
	for len(text) > 0 {
		r, n := utf8.DecodeRuneInString(text)
		if strconv.IsPrint(r) && (r != utf8.RuneError || n > 1) {
			b.WriteString(text[:n])
		} else {
			q := strconv.Quote(text[:n])
			b.WriteString(q[1 : len(q)-1])
		}
		text = text[n:]
	}
	return b.String()
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
