package core

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/lingua-scheduler/lingua/wire"
)

// A required service or model is an id, or an id and the versions that are acceptable: "asr-large", "asr-large@2.1", "nmt@>=3",
// "nmt@>=3,<4". All conditions after the @ must hold.

// operators are the comparisons of a condition. The longer ones come first. Without one, the version must be equal.
var operators = []string{">=", "<=", ">", "<", "="}

// CutRequired returns the id and the conditions of a required service or model.
func CutRequired(required string) (id, conditions string) {
	id, conditions, _ = strings.Cut(required, "@")
	return id, conditions
}

// CheckRequired returns why a text is not a required service or model; nil if it is one.
func CheckRequired(required string) error {
	id, conditions, constrained := strings.Cut(required, "@")
	switch {
	case !validName(id):
		return fmt.Errorf("%q has no id: write an id, or an id and its versions, such as asr-large@2.1 or nmt@>=3,<4", wire.Quote(required))
	case !constrained:
		return nil
	}
	for condition := range strings.SplitSeq(conditions, ",") {
		_, version := cutOperator(condition)
		if !validVersion(version) {
			return fmt.Errorf("%q is not a condition on a version: write one such as 2.1, >=3 or <4, or several with commas between them", wire.Quote(condition))
		}
	}
	return nil
}

// validName reports whether a name of a service or model may be required.
func validName(id string) bool { return id != "" && !strings.ContainsAny(id, "@,<>=") }

// validVersion reports whether a version can be compared: it begins with a digit, or with v and a digit.
func validVersion(version string) bool {
	version = strings.TrimPrefix(version, "v")
	return version != "" && version[0] >= '0' && version[0] <= '9' && !strings.ContainsAny(version, "@,<>= ")
}

func cutOperator(condition string) (operator, version string) {
	for _, operator := range operators {
		if version, found := strings.CutPrefix(condition, operator); found {
			return operator, version
		}
	}
	return "=", condition
}

// Satisfies reports whether a version satisfies the conditions. An unknown version satisfies none.
func Satisfies(version, conditions string) bool {
	if conditions == "" {
		return true
	}
	if version == "" {
		return false
	}
	for condition := range strings.SplitSeq(conditions, ",") {
		operator, wanted := cutOperator(condition)
		order := compareVersions(version, wanted)
		var holds bool
		switch operator {
		case ">=":
			holds = order >= 0
		case "<=":
			holds = order <= 0
		case ">":
			holds = order > 0
		case "<":
			holds = order < 0
		default:
			holds = order == 0
		}
		if !holds {
			return false
		}
	}
	return true
}

// compareVersions orders versions as semantic versioning does, for any number of parts: 2 is 2.0, 2.10 is after 2.9, 2.0-rc.1 is before
// 2.0, and what follows a + does not count.
func compareVersions(a, b string) int {
	a, _, _ = strings.Cut(strings.TrimPrefix(a, "v"), "+")
	b, _, _ = strings.Cut(strings.TrimPrefix(b, "v"), "+")
	a, preA, isPreA := strings.Cut(a, "-")
	b, preB, isPreB := strings.Cut(b, "-")
	if order := compareParts(a, b, "0"); order != 0 {
		return order
	}
	switch {
	case isPreA && !isPreB:
		return -1
	case !isPreA && isPreB:
		return 1
	}
	return compareParts(preA, preB, "")
}

// compareParts compares two lists of parts with dots between them. A part that is missing has a value.
func compareParts(a, b, missing string) int {
	for a != "" || b != "" {
		partA, partB := missing, missing
		if a != "" {
			partA, a, _ = strings.Cut(a, ".")
		}
		if b != "" {
			partB, b, _ = strings.Cut(b, ".")
		}
		if order := comparePart(partA, partB); order != 0 {
			return order
		}
	}
	return 0
}

// comparePart compares two parts: numbers by value and before names, and names by their characters.
func comparePart(a, b string) int {
	numberA, numberB := isNumber(a), isNumber(b)
	switch {
	case numberA && numberB:
		a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
		return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
	case a == "" || b == "" || numberA == numberB:
		return cmp.Compare(a, b)
	case numberA:
		return -1
	}
	return 1
}

func isNumber(part string) bool {
	return part != "" && strings.Trim(part, "0123456789") == ""
}
