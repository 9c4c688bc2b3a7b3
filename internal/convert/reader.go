// Package convert converts between the messages of the API (package wire) and the types of the scheduler. It checks the form of
// requests; it decides nothing.
package convert

import (
	"fmt"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/wire"
)

// Bounds on what one message may hold. They are far above what any real node or job needs.
const (
	maxList   = 4096
	maxPairs  = 20_000
	maxActive = core.MaxConcurrentJobs
	maxName   = 256
	maxURL    = 2048
)

// Reader converts requests, after checking their form. It caches normalised language tags.
type Reader struct {
	checkCallback func(string) error
	langs         langCache
}

// NewReader makes a reader. checkCallback returns the error of a callback URL that is not allowed.
func NewReader(checkCallback func(string) error) *Reader {
	return &Reader{checkCallback: checkCallback, langs: newLangCache()}
}

// CheckID checks an identifier that must be present.
func CheckID(field, id string) *wire.Error {
	if !core.ValidID(id) {
		if id == "" {
			return wire.Invalid(field, "is missing; give 1 to %d of A-Z a-z 0-9 . _ : -", core.MaxIDLen)
		}
		return wire.Invalid(field, "must be 1 to %d of A-Z a-z 0-9 . _ : -", core.MaxIDLen)
	}
	return nil
}

// CheckOptionalID checks an identifier that may be absent.
func CheckOptionalID(field, id string) *wire.Error {
	if id == "" {
		return nil
	}
	return CheckID(field, id)
}

func checkNames(field string, names []string) *wire.Error {
	if len(names) > maxList {
		return wire.Invalid(field, "has %d entries; the maximum is %d", len(names), maxList)
	}
	for i, name := range names {
		if name == "" || len(name) > maxName {
			return wire.Invalid(fmt.Sprintf("%s[%d]", field, i), "must be 1 to %d characters", maxName)
		}
		if err := core.CheckText(name); err != nil {
			return wire.Invalid(fmt.Sprintf("%s[%d]", field, i), "%v", err)
		}
	}
	return nil
}

// checkText checks a text that may be empty, such as a region.
func checkText(field, text string) *wire.Error {
	if len(text) > maxName {
		return wire.Invalid(field, "must be at most %d characters", maxName)
	}
	if err := core.CheckText(text); err != nil {
		return wire.Invalid(field, "%v", err)
	}
	return nil
}

// Lang converts a language tag.
func (r *Reader) Lang(field, tag string) (core.Lang, *wire.Error) {
	l, err := r.langs.parse(tag)
	if err != nil {
		return "", wire.Invalid(field, "%s", err)
	}
	return l, nil
}

// langSet converts a list of tags; an absent list stays absent.
func (r *Reader) langSet(field string, tags []string) (core.LangSet, *wire.Error) {
	if tags == nil {
		return nil, nil
	}
	if len(tags) > maxList {
		return nil, wire.Invalid(field, "has %d entries; the maximum is %d", len(tags), maxList)
	}
	set := make(core.LangSet, len(tags))
	for i, tag := range tags {
		l, e := r.Lang(fmt.Sprintf("%s[%d]", field, i), tag)
		if e != nil {
			return nil, e
		}
		set[i] = l
	}
	return set, nil
}

func (r *Reader) pairs(pairs [][]string) ([]core.Direction, *wire.Error) {
	if pairs == nil {
		return nil, nil
	}
	if len(pairs) > maxPairs {
		return nil, wire.Invalid("nmt_pairs", "has %d entries; the maximum is %d", len(pairs), maxPairs)
	}
	out := make([]core.Direction, len(pairs))
	for i, pair := range pairs {
		field := fmt.Sprintf("nmt_pairs[%d]", i)
		if len(pair) != 2 {
			return nil, wire.Invalid(field, "must be [source, target], not %d entries", len(pair))
		}
		src, e := r.Lang(field+"[0]", pair[0])
		if e != nil {
			return nil, e
		}
		tgt, e := r.Lang(field+"[1]", pair[1])
		if e != nil {
			return nil, e
		}
		if src == tgt {
			return nil, wire.Invalid(field, "source and target are the same language (%s)", src)
		}
		out[i] = core.Direction{Src: src, Tgt: tgt}
	}
	return out, nil
}

// OptionalLang converts a language tag that may be absent.
func (r *Reader) OptionalLang(field, tag string) (core.Lang, *wire.Error) {
	if tag == "" {
		return "", nil
	}
	return r.Lang(field, tag)
}

// langCache caches normalised language tags: the same few come with every request.
type langCache struct {
	mu   run.RWMutex
	tags map[string]core.Lang
}

func newLangCache() langCache {
	return langCache{mu: run.NewRWMutex("convert_languages"), tags: make(map[string]core.Lang)}
}

// maxCachedLangs bounds the cache; further tags are normalised for each request.
const maxCachedLangs = 4096

func (l *langCache) parse(tag string) (core.Lang, error) {
	l.mu.RLock()
	lang, ok := l.tags[tag]
	l.mu.RUnlock()
	if ok {
		return lang, nil
	}
	lang, err := core.ParseLang(tag)
	if err != nil {
		return "", err
	}
	l.mu.Lock()
	if len(l.tags) < maxCachedLangs {
		l.tags[tag] = lang
	}
	l.mu.Unlock()
	return lang, nil
}
