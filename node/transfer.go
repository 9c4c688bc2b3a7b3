package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/wire"
)

// maxTransferTries is how often a download or an upload is tried.
const maxTransferTries = 3

// transferClient downloads audio and uploads speech over HTTP. The URLs carry their own permission: the node's token is not
// sent, and no error contains a URL.
type transferClient struct {
	http   *http.Client
	timing *timing
}

// download fetches the audio of a job. A relative URL is resolved against base.
func (c *transferClient) download(ctx context.Context, base *url.URL, address string) ([]byte, error) {
	var audio []byte
	err := c.retry(ctx, func() error {
		return c.request(ctx, base, address, nil, func(body io.Reader) error {
			var err error
			audio, err = io.ReadAll(io.LimitReader(body, maxAudioBytes+1))
			if len(audio) > maxAudioBytes {
				return permanentError{fmt.Errorf("it is larger than %d bytes", maxAudioBytes)}
			}
			return err
		})
	})
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, fmt.Errorf("the audio cannot be fetched: %w: %w", err, Fail(reasonAudioLost))
	}
	return audio, nil
}

// upload uploads the speech of a job.
func (c *transferClient) upload(ctx context.Context, base *url.URL, address string, s *speech) error {
	return c.retry(ctx, func() error {
		return c.request(ctx, base, address, s, func(io.Reader) error { return nil })
	})
}

// retry calls try until it succeeds, fails permanently, or has failed maxTransferTries times.
func (c *transferClient) retry(ctx context.Context, try func() error) error {
	for failures := 0; ; failures++ {
		err := try()
		if err == nil || isPermanent(err) || failures == maxTransferTries-1 || !run.Sleep(ctx, c.timing.backoff(failures)) {
			return err
		}
	}
}

// request sends one request: a PUT with speech, or a GET without. It is aborted when no byte was transferred for a while,
// because the server may have vanished.
func (c *transferClient) request(ctx context.Context, base *url.URL, address string, upload *speech, read func(io.Reader) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timeout := c.timing.audioTimeout
	idle := time.AfterFunc(timeout, func() { cancel(fmt.Errorf("no data was transferred for %v", timeout)) })
	defer idle.Stop()
	withTimeout := func(r io.Reader) io.Reader { return &progressReader{r, idle, timeout} }
	u, err := base.Parse(address)
	if err != nil {
		return permanentError{errors.New("its address is not a URL")}
	}
	method := http.MethodGet
	if upload != nil {
		method = http.MethodPut
	}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), http.NoBody)
	if err != nil {
		return permanentError{errors.New("its address cannot be used")}
	}
	if upload != nil {
		req.Body, req.ContentLength = io.NopCloser(withTimeout(bytes.NewReader(upload.file))), int64(len(upload.file))
		req.Header.Set("Content-Type", upload.format.ContentType())
		req.Header.Set(wire.AudioHeader, upload.format.Header())
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return causeOf(ctx, withoutURL(err))
	}
	defer resp.Body.Close()
	switch status := resp.StatusCode; {
	case status/100 == 2:
		return causeOf(ctx, withoutURL(read(withTimeout(resp.Body))))
	case status/100 == 4 && status != http.StatusTooManyRequests && status != http.StatusRequestTimeout:
		return permanentError{fmt.Errorf("the answer was %d", status)}
	default:
		return fmt.Errorf("the answer was %d", status)
	}
}

// progressReader is a reader that restarts an idle timer whenever it reads something.
type progressReader struct {
	io.Reader
	idle    *time.Timer
	timeout time.Duration
}

// Read implements io.Reader.
func (r *progressReader) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	if n > 0 {
		r.idle.Reset(r.timeout)
	}
	return n, err
}

// causeOf returns the cause of a context that ended, or err itself.
func causeOf(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// withoutURL removes the URL from an error of the HTTP client, because it may carry a permission.
func withoutURL(err error) error {
	var withURL *url.Error
	if errors.As(err, &withURL) {
		return withURL.Err
	}
	return err
}
