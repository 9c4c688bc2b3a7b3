package main

import "strings"

// dashboard is what one dashboard shows.
type dashboard struct {
	name        string // the end of its uid and the name of its file
	title       string
	description string
	byDirection bool // it has a variable for directions
	rows        []row
}

func (d *dashboard) uid() string      { return "lingua-" + d.name }
func (d *dashboard) fileName() string { return d.name + ".json" }

// row is a row of panels under a title.
type row struct {
	title  string
	panels []panel
}

// kind is the kind of a panel: the id of its plugin in Grafana.
type kind string

const (
	timeseries kind = "timeseries" // the default
	stat       kind = "stat"       // the last value of each query, as a number
	bargauge   kind = "bargauge"   // the last values of a query, as bars
	table      kind = "table"      // the last values of a query, as a table
)

// unit is the unit of the values of a panel, by its id in Grafana.
type unit string

const (
	count     unit = "short"
	perSecond unit = "cps"
	seconds   unit = "s"
	millis    unit = "ms"
	share     unit = "percentunit" // 1 is 100 %
	size      unit = "bytes"       // 1 KiB is 1024 B
)

// panel is one panel. Its description says what is normal, and what to do if it is not.
type panel struct {
	kind        kind
	title       string
	description string
	unit        unit
	width       int // of 24; 0: the row is divided evenly
	warn, crit  float64
	below       bool // warn and crit are lower limits
	stacked     bool
	queries     []query
	alerts      []string // the alerts about the same, without their prefix Lingua: it links to their runbooks
}

// query is a query in PromQL, in which
//
//	$i stands for the matchers of the job and of the chosen instances,
//	$d for the matcher of the chosen directions,
//	$r for the window of a rate.
type query struct {
	expr   string
	legend string // the name of a series, with {{labels}}
}

// promQL returns the query as Grafana gets it.
func (q query) promQL() string {
	return strings.NewReplacer(
		"$i", `job="lingua",instance=~"$instance"`,
		"$d", `direction=~"$direction"`,
		"$r", "$__rate_interval",
	).Replace(q.expr)
}

// one is a panel's single query.
func one(expr, legend string) []query { return []query{{expr, legend}} }

// quantiles are queries for the median, 95 % and 99 % of a histogram. The matchers are those of its series, $i among them.
func quantiles(histogram, matchers string) []query {
	var all []query
	for _, q := range []struct{ value, name string }{{"0.5", "median"}, {"0.95", "95 %"}, {"0.99", "99 %"}} {
		all = append(all, query{"histogram_quantile(" + q.value + ", sum by (le) (rate(" + histogram + "_bucket{" + matchers + "}[$r])))",
			q.name})
	}
	return all
}

// quantileBy is one quantile of a histogram by a label.
func quantileBy(q, histogram, matchers, label string) []query {
	return one("histogram_quantile("+q+", sum by (le, "+label+") (rate("+histogram+"_bucket{"+matchers+"}[$r])))", "{{"+label+"}}")
}
