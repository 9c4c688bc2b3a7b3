package bus

import (
	"crypto/rand"
	"strings"

	"github.com/lingua-scheduler/lingua/internal/core"
)

const (
	unnamed = "i" // stands for the name of an instance that was given none
	markLen = 8   // of what no other life has
)

// NewLife names a life of a process: the name its instance was given, if any, and something that no other life of it has.
func NewIncarnation(name string) core.InstanceID {
	if name == "" {
		name = unnamed
	}
	return core.InstanceID(name + "-" + strings.ToLower(rand.Text()[:markLen]))
}

// NameOf is the name that the instance of a life was given. One that was given none is called by its life.
func ConfiguredName(life core.InstanceID) string {
	i := strings.LastIndexByte(string(life), '-')
	if i <= 0 || len(life)-i-1 != markLen || life[:i] == unnamed {
		return string(life)
	}
	return string(life[:i])
}
