package config_test

import (
	"strings"
	"testing"

	"github.com/lingua-scheduler/lingua/internal/config"
)

// A variable that begins like ours and is not known would do nothing, and nobody would notice.
func TestAMisspelledVariableIsRefused(t *testing.T) {
	t.Parallel()
	_, err := config.Load("", []string{"PATH=/bin", "LINGUA_SERVR_PORT=1"})
	if err == nil || !strings.Contains(err.Error(), "LINGUA_SERVR_PORT") {
		t.Errorf("error %v, want one that names the variable", err)
	}
	if _, err := config.Load("", []string{"LINGUA_URL=http://127.0.0.1:1", "LINGUA_SERVER_PORT=1"}); err != nil {
		t.Errorf("known variables: %v", err)
	}
}
