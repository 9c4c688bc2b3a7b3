package redisstore

import (
	"bytes"
	"compress/flate"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
)

const (
	// compressAbove is the size of a body above which it is compressed. A node with a hundred services is about as large; below, the
	// time that it takes is worth more than the bytes.
	compressAbove = 4 << 10
	// maxBody bounds the size of a body that is decompressed.
	maxBody = 16 << 20
	// compressedMark begins a compressed body. Any other body is JSON, which begins with a brace.
	compressedMark = "z"
)

// bodyHead is what scripts read of a body. A compressed body has it in clear, in a line before the rest.
type bodyHead struct {
	Tenant string `json:"tenant,omitempty"`
	Secret string `json:"secret,omitempty"`
}

var errBodySize = errors.New("its body is larger than any that is written")

// compressors are kept, because each takes a megabyte.
var compressors = sync.Pool{New: func() any {
	w, _ := flate.NewWriter(nil, flate.BestSpeed) // the level is valid: it cannot fail
	return w
}}

// packBody returns the stored form of the JSON of a node: as it is, or compressed if it is large.
func packBody(text []byte, head bodyHead) (string, error) {
	if len(text) <= compressAbove {
		return string(text), nil
	}
	line, err := json.Marshal(head)
	if err != nil {
		return "", err
	}
	var packed bytes.Buffer
	packed.WriteString(compressedMark)
	packed.Write(line)
	packed.WriteByte('\n')
	w, _ := compressors.Get().(*flate.Writer)
	defer compressors.Put(w)
	w.Reset(&packed)
	if _, err := w.Write(text); err != nil {
		return "", err
	}
	if err := w.Close(); err != nil {
		return "", err
	}
	return packed.String(), nil
}

// unpackBody returns the JSON of a node from its stored form.
func unpackBody(body string) ([]byte, error) {
	rest, compressed := strings.CutPrefix(body, compressedMark)
	if !compressed {
		return []byte(body), nil
	}
	_, packed, _ := strings.Cut(rest, "\n")
	text, err := io.ReadAll(io.LimitReader(flate.NewReader(strings.NewReader(packed)), maxBody+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("its body cannot be decompressed: %w", err)
	case len(text) > maxBody:
		return nil, errBodySize
	}
	return text, nil
}
