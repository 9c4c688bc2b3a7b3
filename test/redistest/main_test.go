package redistest

import (
	"testing"

	"go.uber.org/goleak"
)

// TestMain checks that no server and no proxy leaves a goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// connect opens a connection that is closed at the end of the test.
func connect(t *testing.T, addr string) *conn {
	t.Helper()
	c, err := dial(t.Context(), addr, answerTimeout)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// expect runs a command and compares the reply.
func expect(t *testing.T, do func(args ...string) (any, error), want any, args ...string) {
	t.Helper()
	if got, err := do(args...); err != nil || got != want {
		t.Fatalf("%.100q answered %.100q, %v; want %.100q", args, got, err, want)
	}
}
