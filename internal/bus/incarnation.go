package bus

import (
	"crypto/rand"
	"strings"

	"github.com/lingua-scheduler/lingua/internal/core"
)

const (
	defaultName = "i" // of an instance that has no configured name
	suffixLen   = 8   // of the random part of an incarnation
)

// NewIncarnation makes the identifier of one incarnation of a process: the configured name of the instance, and a random suffix
// that no other incarnation has.
func NewIncarnation(name string) core.InstanceID {
	if name == "" {
		name = defaultName
	}
	return core.InstanceID(name + "-" + strings.ToLower(rand.Text()[:suffixLen]))
}

// ConfiguredName is the configured name of an incarnation's instance. Without one, it is the incarnation itself.
func ConfiguredName(incarnation core.InstanceID) string {
	i := strings.LastIndexByte(string(incarnation), '-')
	if i <= 0 || len(incarnation)-i-1 != suffixLen || incarnation[:i] == defaultName {
		return string(incarnation)
	}
	return string(incarnation[:i])
}
