package main

import (
	"net/http"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain sees to it that no command leaves a goroutine behind. The commands that ask a scheduler use the
// process's own client, whose idle connections a process takes with it when it ends.
func TestMain(m *testing.M) {
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
