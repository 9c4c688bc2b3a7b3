package core

import (
	"cmp"
	"strings"
)

// Satisfies reports whether a version satisfies the conditions. An unknown version satisfies none, and one that has no place in the order
// of versions, such as latest or dev, only the condition that the version is this word.
func Satisfies(version, conditions string) bool {
	if conditions == "" {
		return true
	}
	if version == "" {
		return false
	}
	ordered := isOrdered(version)
	for condition := range strings.SplitSeq(conditions, ",") {
		operator, wanted := cutOperator(condition)
		if !ordered || !isOrdered(wanted) {
			if operator != "=" || version != wanted {
				return false
			}
			continue
		}
		if !holds(operator, compareVersions(version, wanted)) {
			return false
		}
	}
	return true
}

// holds reports whether an operator holds for the order of its operands.
func holds(operator string, order int) bool {
	switch operator {
	case ">=":
		return order >= 0
	case "<=":
		return order <= 0
	case ">":
		return order > 0
	case "<":
		return order < 0
	}
	return order == 0
}

// isOrdered reports whether a version has a place in the order of versions: numbers with dots between them, perhaps after a v and before a
// pre-release or a build.
func isOrdered(version string) bool {
	version, _, _ = strings.Cut(strings.TrimPrefix(version, "v"), "+")
	version, pre, isPre := strings.Cut(version, "-")
	if isPre && pre == "" {
		return false
	}
	for part := range strings.SplitSeq(version, ".") {
		if !isNumber(part) {
			return false
		}
	}
	return true
}

// versionRange are the versions that satisfy some conditions: one version, or those between two bounds.
type versionRange struct {
	exact        string // empty: there are bounds
	lower, upper versionBound
}

// versionBound is a bound of a range; an empty version: there is none.
type versionBound struct {
	version string
	open    bool // the version itself is outside
}

// rangeOf returns the range of conditions that CheckRequired accepts.
func rangeOf(conditions string) (r versionRange) {
	for condition := range strings.SplitSeq(conditions, ",") {
		operator, version := cutOperator(condition)
		bound := versionBound{version, operator == ">" || operator == "<"}
		switch operator {
		case "=":
			r.exact = version
		case ">=", ">":
			if order := boundOrder(r.lower, bound); order < 0 || order == 0 && bound.open {
				r.lower = bound
			}
		default:
			if order := boundOrder(bound, r.upper); r.upper.version == "" || order < 0 || order == 0 && bound.open {
				r.upper = bound
			}
		}
	}
	return r
}

// boundOrder compares the versions of two bounds; an empty one is before all others.
func boundOrder(a, b versionBound) int {
	if a.version == "" || b.version == "" {
		return cmp.Compare(len(a.version), len(b.version))
	}
	return compareVersions(a.version, b.version)
}

// isEmpty reports whether no version is in the range of these conditions.
func (r *versionRange) isEmpty(conditions string) bool {
	if r.exact != "" {
		return !Satisfies(r.exact, conditions)
	}
	if r.lower.version == "" || r.upper.version == "" {
		return false
	}
	order := compareVersions(r.lower.version, r.upper.version)
	return order > 0 || order == 0 && (r.lower.open || r.upper.open)
}

// implies reports whether every version that satisfies some conditions satisfies others, too.
func implies(conditions, others string) bool {
	if others == "" || conditions == others {
		return true
	}
	if conditions == "" {
		return false
	}
	r := rangeOf(conditions)
	if r.exact != "" {
		return Satisfies(r.exact, others)
	}
	for condition := range strings.SplitSeq(others, ",") {
		operator, version := cutOperator(condition)
		if !isOrdered(version) || !r.within(operator, version) {
			return false
		}
	}
	return true
}

// within reports whether every version of a range with bounds satisfies a condition.
func (r *versionRange) within(operator, version string) bool {
	switch operator {
	case ">=", ">":
		return r.lower.version != "" &&
			(r.lower.open && compareVersions(r.lower.version, version) == 0 || holds(operator, compareVersions(r.lower.version, version)))
	case "<=", "<":
		return r.upper.version != "" &&
			(r.upper.open && compareVersions(r.upper.version, version) == 0 || holds(operator, compareVersions(r.upper.version, version)))
	}
	return r.lower.version != "" && r.upper.version != "" && compareVersions(r.lower.version, version) == 0 &&
		compareVersions(r.upper.version, version) == 0
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
