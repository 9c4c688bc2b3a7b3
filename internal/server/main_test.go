package server_test

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

var redisURL = flag.String("redis", "", "run the schedulers of these tests over this Redis instead of the memory store")

var update = flag.Bool("update", false, "write the golden files anew")

// TestMain sees to it that no scheduler of these tests leaves a goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
