package deploy_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// selector is a metric that an expression reads, and the labels it speaks of.
type selector struct {
	metric string
	labels []string
}

// reading is what an expression reads: metrics, and the labels that results are grouped or joined by.
type reading struct {
	selectors []selector
	grouping  []string
}

var (
	token     = regexp.MustCompile(`^(?:\s+|[A-Za-z_][A-Za-z0-9_]*|[0-9]+(?:\.[0-9]+)?(?:ms|[smhdwy])?|"[^"\\]*"|=~|!~|!=|==|>=|<=|[-+*/%^<>=(){}\[\],:@])`)
	word      = regexp.MustCompile(`^[A-Za-z_]`)
	functions = []string{"absent", "sum", "max", "min", "count", "avg", "rate", "increase", "max_over_time", "histogram_quantile"}
	operators = []string{"and", "or", "unless", "offset", "bool"}
	groupers  = []string{"by", "without", "on", "ignoring", "group_left", "group_right"}
)

// read takes an expression apart. It is no parser of PromQL, only strict enough that a metric or a label cannot hide:
// a word is a function, an operator, a label where labels stand, or else a metric.
func read(expr string) (reading, error) {
	var tokens []string
	for rest := expr; rest != ""; {
		found := token.FindString(rest)
		if found == "" {
			return reading{}, fmt.Errorf("cannot read %q", rest)
		}
		if rest = rest[len(found):]; strings.TrimSpace(found) != "" {
			tokens = append(tokens, found)
		}
	}
	var r reading
	var open []string
	at := func(i int) string {
		if i < 0 || i >= len(tokens) {
			return ""
		}
		return tokens[i]
	}
	grouping := false
	for i, tok := range tokens {
		switch tok {
		case "(", "{", "[":
			open = append(open, tok)
			if tok == "(" {
				grouping = slices.Contains(groupers, at(i-1))
			}
			if tok == "{" && !word.MatchString(at(i-1)) {
				return r, fmt.Errorf("labels of no metric at %q", strings.Join(tokens[i:], " "))
			}
			continue
		case ")", "}", "]":
			pair := map[string]string{")": "(", "}": "{", "]": "["}[tok]
			if len(open) == 0 || open[len(open)-1] != pair {
				return r, fmt.Errorf("%q closes nothing", tok)
			}
			open, grouping = open[:len(open)-1], false
			continue
		}
		if !word.MatchString(tok) {
			continue
		}
		inside := ""
		if len(open) > 0 {
			inside = open[len(open)-1]
		}
		switch {
		case inside == "{":
			last := &r.selectors[len(r.selectors)-1]
			last.labels = append(last.labels, tok)
		case grouping:
			r.grouping = append(r.grouping, tok)
		case slices.Contains(operators, tok), slices.Contains(groupers, tok):
		case at(i+1) == "(" || slices.Contains(groupers, at(i+1)):
			if !slices.Contains(functions, tok) {
				return r, fmt.Errorf("do not know the function %s", tok)
			}
		default:
			r.selectors = append(r.selectors, selector{metric: tok})
		}
	}
	if len(open) > 0 {
		return r, fmt.Errorf("%q is not closed", open[len(open)-1])
	}
	return r, nil
}

func TestRead(t *testing.T) {
	t.Parallel()
	for expr, want := range map[string]reading{
		`up == 0`: {selectors: []selector{{metric: "up"}}},
		`sum by (le, code) (rate(a_bucket{x="1", y=~"a|b"}[5m])) > 0.1`: {
			selectors: []selector{{"a_bucket", []string{"x", "y"}}}, grouping: []string{"le", "code"},
		},
		`a unless on (i) sum by (i) (b offset 10m)`: {selectors: []selector{{metric: "a"}, {metric: "b"}}, grouping: []string{"i", "i"}},
		`a < 0.7 * max_over_time(sum(b)[30m:1m])`:   {selectors: []selector{{metric: "a"}, {metric: "b"}}},
	} {
		got, err := read(expr)
		if err != nil {
			t.Errorf("%s: %v", expr, err)
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(reading{}, selector{})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", expr, diff)
		}
	}
	for _, expr := range []string{"sum(a", "sum a)", "a}", "a{b}]", "nosuch(a)", "{b=\"c\"}", "a & b", "\"open"} {
		if got, err := read(expr); err == nil {
			t.Errorf("%s is read as %+v", expr, got)
		}
	}
}
