package core

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/lingua-scheduler/lingua/wire"
)

// A required service or model is an id, or an id and the versions that are acceptable: "asr-large", "asr-large@2.1", "nmt@>=3",
// "nmt@>=3,<4". All conditions after the @ must hold.

// MaxRequired is how many services a job may require, and how many models and features. Each is checked on many nodes.
const MaxRequired = 32

// maxConditions is how many conditions on its version a required service may have. A range needs two.
const maxConditions = 8

// operators are the comparisons of a condition. The longer ones come first. Without one, the version must be equal.
var operators = []string{">=", "<=", ">", "<", "="}

// CutRequired returns the id and the conditions of a required service or model.
func CutRequired(required string) (id, conditions string) {
	id, conditions, _ = strings.Cut(required, "@")
	return id, conditions
}

// CheckRequired returns why a text is not a required service or model; nil if it is one.
func CheckRequired(required string) error {
	quoted := wire.Quote(required)
	id, conditions, constrained := strings.Cut(required, "@")
	if err := CheckText(required); err != nil {
		return fmt.Errorf("%q %w", quoted, err)
	}
	switch at := strings.IndexAny(id, "<>="); {
	case id == "":
		return fmt.Errorf("%q has no id: write an id, or an id and its versions, such as asr-large@2.1 or nmt@>=3,<4", quoted)
	case at > 0 && !constrained:
		return fmt.Errorf("%q: put an @ before the version: %s@%s", quoted, wire.Quote(id[:at]), wire.Quote(id[at:]))
	case !validName(id):
		return fmt.Errorf("%q: an id must not contain any of , < > =: write an id, or an id and its versions, such as asr-large@2.1 or "+
			"nmt@>=3,<4", quoted)
	case !constrained:
		return nil
	case conditions == "":
		return fmt.Errorf("%q has no version after the @: write %s for any version, or conditions such as 2.1, >=3 or >=3,<4 after it",
			quoted, wire.Quote(id))
	}
	if n := strings.Count(conditions, ",") + 1; n > maxConditions {
		return fmt.Errorf("%q has %d conditions; the maximum is %d", quoted, n, maxConditions)
	}
	for condition := range strings.SplitSeq(conditions, ",") {
		if err := checkCondition(condition); err != nil {
			return fmt.Errorf("%q: %w", quoted, err)
		}
	}
	if r := rangeOf(conditions); r.isEmpty(conditions) {
		return fmt.Errorf("%q: no version satisfies all conditions: write a range from the lower to the higher version, such as >=3,<4",
			quoted)
	}
	return nil
}

// checkCondition returns why a text is not a condition on a version; nil if it is one.
func checkCondition(condition string) error {
	operator, version := cutOperator(condition)
	switch {
	case isWildcard(version):
		return fmt.Errorf("%q is not a version: there are no wildcards, write %s", wire.Quote(version), rangeOfWildcard(version))
	case !isWord(version):
		return fmt.Errorf("%q is not a condition on a version: write one such as 2.1, >=3 or <4, or several with commas between them",
			wire.Quote(condition))
	case operator != "=" && !isOrdered(version):
		return fmt.Errorf("%q has no place in the order of versions: compare with numbers, such as >=3, or write the word alone",
			wire.Quote(version))
	}
	return nil
}

// isWord reports whether a text can be the version of a service.
func isWord(version string) bool {
	if version == "" || strings.Contains(version, "..") || strings.ContainsAny(version[:1]+version[len(version)-1:], ".+-") {
		return false
	}
	return !strings.ContainsFunc(version, func(c rune) bool {
		return !unicode.IsLetter(c) && !unicode.IsDigit(c) && !strings.ContainsRune("._+-:/", c)
	})
}

// isWildcard reports whether a version stands for several, as other programs write it: 3.x or 3.*.
func isWildcard(version string) bool {
	for part := range strings.SplitSeq(version, ".") {
		if part == "*" || part == "x" || part == "X" {
			return true
		}
	}
	return false
}

// rangeOfWildcard returns the conditions that mean what somebody meant with a wildcard.
func rangeOfWildcard(version string) string {
	var parts []string
	for part := range strings.SplitSeq(strings.TrimPrefix(version, "v"), ".") {
		if !isNumber(part) {
			break
		}
		parts = append(parts, part)
	}
	if len(parts) == 0 {
		return "only the id for any version"
	}
	last := len(parts) - 1
	from := strings.Join(parts, ".")
	n, err := strconv.Atoi(parts[last])
	if err != nil {
		return "a range such as >=3,<4"
	}
	parts[last] = strconv.Itoa(n + 1)
	return fmt.Sprintf(">=%s,<%s", wire.Quote(from), wire.Quote(strings.Join(parts, ".")))
}

var errControl = errors.New("must not contain control characters")

// CheckText returns why a text may not be a name, a version or a region; nil if it may.
func CheckText(text string) error {
	if strings.ContainsFunc(text, unicode.IsControl) {
		return errControl
	}
	return nil
}

// validName reports whether a name of a service or model may be required.
func validName(id string) bool {
	return id != "" && !strings.ContainsAny(id, "@,<>=") && CheckText(id) == nil
}

func cutOperator(condition string) (operator, version string) {
	for _, operator := range operators {
		if version, found := strings.CutPrefix(condition, operator); found {
			return operator, version
		}
	}
	return "=", condition
}
