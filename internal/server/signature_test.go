package server_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/wire"
)

// TestSignature verifies a delivery as a node would, by the words of the contract: the HMAC-SHA256, under the
// shared secret, of the time, a dot and the body.
func TestSignature(t *testing.T) {
	t.Parallel()
	const secret = "shared between the scheduler and its nodes"
	w := newWorld(t, func(c *config.Config) { c.Callback.Secret = secret })
	w.node("n1", nil)
	d, _ := w.begin(utterance(nil))

	header := d.header.Get(wire.SignatureHeader)
	at, sum, ok := strings.Cut(header, ",v1=")
	at, ok2 := strings.CutPrefix(at, "t=")
	if !ok || !ok2 {
		t.Fatalf("want t=<unix>,v1=<hex>, got %q", header)
	}
	unix, err := strconv.ParseInt(at, 10, 64)
	if err != nil || time.Since(time.Unix(unix, 0)).Abs() > time.Minute {
		t.Errorf("the time of the signature is %q", at)
	}
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(at + "." + string(d.body)))
	if want := hex.EncodeToString(mac.Sum(nil)); sum != want {
		t.Errorf("want %s, got %s", want, sum)
	}
}
