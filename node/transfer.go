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

	"github.com/lingua-scheduler/lingua/wire"
)

// tries is how often audio is fetched and speech is uploaded before it is given up.
const tries = 3

// get fetches the audio of a job. The address carries its own permission: the node's token is not sent with it, and it is
// in no error.
func (t *task) get(ctx context.Context, address string) ([]byte, error) {
	var audio []byte
	err := t.transfer(ctx, http.MethodGet, address, nil, func(body io.Reader) error {
		var err error
		audio, err = io.ReadAll(io.LimitReader(body, maxAudio+1))
		if len(audio) > maxAudio {
			return final{fmt.Errorf("it is larger than %d bytes", maxAudio)}
		}
		return err
	})
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, fmt.Errorf("the audio cannot be fetched: %w: %w", err, Fail(reasonAudioLost))
	}
	return audio, nil
}

// put uploads the spoken result of a job.
func (t *task) put(ctx context.Context, address string, spoken *speech) error {
	return t.transfer(ctx, http.MethodPut, address, spoken, func(io.Reader) error { return nil })
}

// transfer does one request, a few times if need be.
func (t *task) transfer(ctx context.Context, method, address string, upload *speech, read func(io.Reader) error) error {
	for failed := 1; ; failed++ {
		err := t.request(ctx, method, address, upload, read)
		if err == nil || hopeless(err) || failed == tries || !wait(ctx, t.node.pace.pause(failed)) {
			return err
		}
	}
}

// request does it once. When nothing moves for a while it is given up: the other side may have vanished.
func (t *task) request(ctx context.Context, method, address string, upload *speech, read func(io.Reader) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stall := t.node.pace.stall
	idle := time.AfterFunc(stall, func() { cancel(fmt.Errorf("nothing moved for %v", stall)) })
	defer idle.Stop()
	moving := func(r io.Reader) io.Reader { return &moving{r, idle, stall} }
	u, err := t.base.Parse(address)
	if err != nil {
		return final{errors.New("its address is not a URL")}
	}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), http.NoBody)
	if err != nil {
		return final{errors.New("its address cannot be used")}
	}
	if upload != nil {
		req.Body, req.ContentLength = io.NopCloser(moving(bytes.NewReader(upload.file))), int64(len(upload.file))
		req.Header.Set("Content-Type", upload.format.ContentType())
		req.Header.Set(wire.AudioHeader, upload.format.Header())
	}
	resp, err := t.node.http.Do(req)
	if err != nil {
		return stalled(ctx, withoutURL(err))
	}
	defer resp.Body.Close()
	switch status := resp.StatusCode; {
	case status/100 == 2:
		return stalled(ctx, withoutURL(read(moving(resp.Body))))
	case status/100 == 4 && status != http.StatusTooManyRequests && status != http.StatusRequestTimeout:
		return final{fmt.Errorf("%d was answered", status)}
	default:
		return fmt.Errorf("%d was answered", status)
	}
}

// moving is a reader that is not idle.
type moving struct {
	io.Reader
	idle  *time.Timer
	stall time.Duration
}

// Read implements io.Reader.
func (m *moving) Read(b []byte) (int, error) {
	n, err := m.Reader.Read(b)
	if n > 0 {
		m.idle.Reset(m.stall)
	}
	return n, err
}

// stalled is the error of a request, or why it was given up.
func stalled(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// withoutURL takes the address out of an error of the HTTP client: it may carry a permission.
func withoutURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}
