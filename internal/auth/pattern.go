package auth

import (
	"errors"
	"path"
	"strings"

	"github.com/lingua-scheduler/lingua/internal/core"
)

// MatchNode reports whether a name matches a pattern of node names, in the syntax of path.Match.
func MatchNode(pattern string, id core.NodeID) bool {
	ok, err := path.Match(pattern, string(id))
	return ok && err == nil
}

// patternRunes are the characters of a pattern that are not characters of names.
const patternRunes = `*?[]\^-`

var errPattern = errors.New("is a pattern of node names that is invalid, or that no name can match")

// checkPattern checks a pattern of node names.
func checkPattern(pattern string) error {
	plain := strings.Map(func(r rune) rune {
		if strings.ContainsRune(patternRunes, r) {
			return 'x'
		}
		return r
	}, pattern)
	if _, err := path.Match(pattern, ""); err != nil || !core.ValidID(plain) {
		return errPattern
	}
	return nil
}

// patternElement is one element of a pattern: any number of any characters, or one character out of a set.
type patternElement struct {
	any  bool
	char [128]bool
}

// parsePattern splits a valid pattern into its elements.
func parsePattern(pattern string) []patternElement {
	var elements []patternElement
	for i := 0; i < len(pattern); {
		var e patternElement
		size := 1
		switch pattern[i] {
		case '*':
			e.any = true
		case '[':
			size = classLength(pattern[i:])
			e.fill(pattern[i : i+size])
		case '\\':
			size = 2
			e.fill(pattern[i : i+size])
		default:
			e.fill(pattern[i : i+1])
		}
		elements = append(elements, e)
		i += size
	}
	return elements
}

// classLength is the length of the character class that begins a valid pattern.
func classLength(pattern string) int {
	for i := 1; i < len(pattern); i++ {
		switch pattern[i] {
		case '\\':
			i++
		case ']':
			return i + 1
		}
	}
	return len(pattern)
}

// fill sets the characters that a pattern of one element matches.
func (e *patternElement) fill(pattern string) {
	for c := range e.char {
		ok, err := path.Match(pattern, string(rune(c)))
		e.char[c] = ok && err == nil && core.ValidID(string(rune(c)))
	}
}

func (e *patternElement) intersects(other *patternElement) bool {
	for c := range e.char {
		if e.char[c] && other.char[c] {
			return true
		}
	}
	return false
}

// PatternsOverlap reports whether a name matches both of two valid patterns.
func PatternsOverlap(a, b string) bool {
	x, y := parsePattern(a), parsePattern(b)
	// reachable[j] says that some text matches the elements of x so far and the first j elements of y.
	reachable := make([]bool, len(y)+1)
	reachable[0] = true
	skipStars(y, reachable)
	for i := range x {
		next := make([]bool, len(y)+1)
		for j := range reachable {
			if !reachable[j] {
				continue
			}
			switch {
			case x[i].any: // it matches nothing, or whatever the elements from j on match
				for k := j; k <= len(y); k++ {
					next[k] = true
				}
			case j < len(y) && y[j].any: // it takes the character and may take more
				next[j] = true
			case j < len(y) && x[i].intersects(&y[j]):
				next[j+1] = true
			}
		}
		skipStars(y, next)
		reachable = next
	}
	return reachable[len(y)]
}

// skipStars extends the reachable positions over elements that may match nothing.
func skipStars(elements []patternElement, reachable []bool) {
	for j := range elements {
		if reachable[j] && elements[j].any {
			reachable[j+1] = true
		}
	}
}
