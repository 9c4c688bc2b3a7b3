package sim

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/lingua-scheduler/lingua/internal/backoff"
)

// badLine is a client whose connections are cut after about so long. Nil, which is a good one, for 0.
func badLine(lasts time.Duration) *http.Client {
	if lasts == 0 {
		return nil
	}
	return &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		var d net.Dialer
		c, err := d.DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		time.AfterFunc(backoff.Jitter(lasts, 0.5), func() { _ = c.Close() })
		return c, nil
	}}}
}
