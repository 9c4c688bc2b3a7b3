package main

import (
	"net/http"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// TestMain checks that no command leaks a goroutine. The commands that call the API use http.DefaultClient, whose idle
// connections end with the process.
func TestMain(m *testing.M) {
	healthTimeout = 30 * time.Second
	code := m.Run()
	http.DefaultClient.CloseIdleConnections()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			println(err.Error())
			code = 1
		}
	}
	os.Exit(code)
}
