package nodeconn_test

import (
	"testing"
	"time"

	"github.com/lingua-scheduler/lingua/internal/nodeconn"
)

// TestSign compares with signatures of another program:
//
//	printf '%s' '1700000000.{"job_id":"job-abc","attempt_id":1}' | openssl dgst -sha256 -hmac 'top secret'
//
// Nodes verify the signature in their own code: it must not change.
func TestSign(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		secret string
		at     int64
		body   string
		want   string
	}{
		{"top secret", 1_700_000_000, `{"job_id":"job-abc","attempt_id":1}`, "t=1700000000,v1=e05e6e673ac63618b141d43cf50a132ce2498bfe9189c519aa509ccc67a16b82"},
		{"k", 0, "", "t=0,v1=6b4a4b8b3c40f1e8f53a3d36682e5f99f7ad2ac1df1c93dfe336f329167641e7"},
	} {
		if got := nodeconn.Sign([]byte(c.secret), time.Unix(c.at, 999), []byte(c.body)); got != c.want {
			t.Errorf("%q at %d: want %s, got %s", c.body, c.at, c.want, got)
		}
	}
}
