package health

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
)

// answerError is what is wrong with the answer of a ModelHub, in a sentence that repeats nothing of it.
type answerError string

func (e answerError) Error() string { return string(e) }

const (
	errNotListed = answerError("the ModelHub has no such service")
	errOversized = answerError("the answer is too large")
	errMalformed = answerError("the answer is not JSON of the documented form")
	errRedirect  = answerError("redirects to another host, or too often, are not followed")
)

// maxRedirects is how many redirects within the ModelHub's host are followed.
const maxRedirects = 3

// checkRedirect follows redirects within one host only: the token is for that host.
func checkRedirect(req *http.Request, via []*http.Request) error {
	first := via[0].URL
	if len(via) > maxRedirects || req.URL.Host != first.Host || req.URL.Scheme != first.Scheme {
		return errRedirect
	}
	return nil
}

// listAnswer is the answer to a request for the list.
type listAnswer struct {
	notModified    bool
	services       []HubService
	etag, modified string
}

// fetchList fetches the list, if it is not the one that this instance has.
func (c *Catalog) fetchList(ctx context.Context) (listAnswer, error) {
	conditional := http.Header{}
	if c.etag != "" {
		conditional.Set("If-None-Match", c.etag)
	}
	if c.modified != "" {
		conditional.Set("If-Modified-Since", c.modified)
	}
	body, header, err := c.get(ctx, c.url.String(), conditional)
	if err != nil {
		return listAnswer{}, err
	}
	if body == nil {
		return listAnswer{notModified: true}, nil
	}
	var list HubList
	if json.Unmarshal(body, &list) != nil {
		return listAnswer{}, errMalformed
	}
	if err := list.Check(); err != nil {
		return listAnswer{}, answerError(err.Error())
	}
	slices.SortFunc(list.Services, func(a, b HubService) int { return cmp.Compare(a.ServiceID, b.ServiceID) })
	return listAnswer{services: list.Services, etag: header.Get("ETag"), modified: header.Get("Last-Modified")}, nil
}

// fetchService fetches one service.
func (c *Catalog) fetchService(ctx context.Context, id string) (HubService, error) {
	body, _, err := c.get(ctx, c.url.JoinPath(escapeSegment(id)).String(), nil)
	if err != nil {
		return HubService{}, err
	}
	var s HubService
	if json.Unmarshal(body, &s) != nil {
		return HubService{}, errMalformed
	}
	if err := s.Check(); err != nil {
		return HubService{}, answerError(err.Error())
	}
	if s.ServiceID != id {
		return HubService{}, answerError("the answer is about another service")
	}
	return s, nil
}

// get sends a request and returns the body of the answer; nil if the answer is that it has not changed.
func (c *Catalog) get(ctx context.Context, address string, conditional http.Header) ([]byte, http.Header, error) {
	ctx, cancel := context.WithTimeout(ctx, c.opts.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, nil, err
	}
	for name, values := range conditional {
		req.Header[name] = values
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "lingua-scheduler")
	if c.opts.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.opts.Token)
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusNotModified && len(conditional) > 0:
		return nil, resp.Header, nil
	case resp.StatusCode == http.StatusNotFound && conditional == nil:
		return nil, nil, errNotListed
	case resp.StatusCode != http.StatusOK:
		return nil, nil, answerError(fmt.Sprintf("the ModelHub answered %d", resp.StatusCode))
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, MaxBody+1))
	switch {
	case err != nil:
		return nil, nil, err
	case len(body) > MaxBody:
		return nil, nil, errOversized
	}
	return body, resp.Header, nil
}

// maxErrorText bounds the text of an error.
const maxErrorText = 200

// describeRequestError describes why a request failed. Errors of net/http may quote what the server has sent, such as a Location: only
// those of the network and of TLS are repeated.
func describeRequestError(err error) string {
	var answer answerError
	var network *net.OpError
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.As(err, &answer):
		return string(answer)
	case errors.As(err, &certificate):
		err = certificate
	case errors.As(err, &network):
		err = network
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the connection was closed before the end of the answer"
	default:
		return "the request failed"
	}
	text := err.Error()
	return text[:min(len(text), maxErrorText)]
}

// escapeSegment escapes a text as one segment of a path. A dot alone would be another path.
func escapeSegment(text string) string {
	if text == "." || text == ".." {
		return "%2E" + text[1:]
	}
	return url.PathEscape(text)
}
