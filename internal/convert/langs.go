package convert

import (
	"sync"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// langs remembers how tags were normalised: the same few come with every request.
type langs struct {
	mu sync.RWMutex
	m  map[string]core.Lang
}

// maxLangs bounds what is remembered; beyond it tags are normalised anew each time.
const maxLangs = 4096

func (l *langs) init() { l.m = make(map[string]core.Lang) }

func (l *langs) parse(tag string) (core.Lang, error) {
	l.mu.RLock()
	lang, ok := l.m[tag]
	l.mu.RUnlock()
	if ok {
		return lang, nil
	}
	lang, err := core.ParseLang(tag)
	if err != nil {
		return "", err
	}
	l.mu.Lock()
	if len(l.m) < maxLangs {
		l.m[tag] = lang
	}
	l.mu.Unlock()
	return lang, nil
}
