package scale

import (
	"bytes"
	"fmt"
	"html"
	"math"
	"slices"
	"time"
)

// The plot, in pixels.
const (
	plotWidth   = 960
	plotLeft    = 70
	plotRight   = 160 // for the legend
	panelHeight = 130
	panelGap    = 44
)

// series is a line of a panel.
type series struct {
	name, colour, dash string
	values             []float64 // by bin
}

// panel is a part of the plot with an axis of its own.
type panel struct {
	title    string
	from, to float64 // hours
	max      float64
	label    func(float64) string // of the numbers on its axis
	lines    []series
	dashed   []series // without a legend
}

// The hours that most panels show: the others are calm.
const (
	busyFrom = 8.0
	busyTo   = 12.0
)

var tenantColours = []string{"#1f77b4", "#2ca02c", "#9467bd", "#d62728", "#ff7f0e"}

// plot draws the day as an SVG.
func (m *model) plot() []byte {
	panels := []panel{m.ratePanel(), m.waitPanel(), m.refusalPanel(), m.sharePanel()}
	height := len(panels)*(panelHeight+panelGap) + 36
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n", plotWidth, height)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="white"/>`+"\n", plotWidth, height)
	for i := range panels {
		panels[i].draw(&b, 30+i*(panelHeight+panelGap))
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d" fill="#444">yellow: a tenant floods; red: a region has failed; both from 10:00 to 10:30</text>`+"\n", plotLeft, height-10)
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// x returns the position of an hour.
func (p *panel) x(hour float64) float64 {
	return plotLeft + (hour-p.from)/(p.to-p.from)*(plotWidth-plotLeft-plotRight)
}

// draw draws a panel whose upper edge is at top.
func (p *panel) draw(b *bytes.Buffer, top int) {
	y := func(value float64) float64 { return float64(top) + panelHeight*(1-min(value/p.max, 1)) }
	band := func(from, to float64, colour string) {
		fmt.Fprintf(b, `<rect x="%.1f" y="%d" width="%.1f" height="%d" fill="%s" fill-opacity="0.6"/>`+"\n", p.x(from), top, p.x(to)-p.x(from), panelHeight, colour)
	}
	band(floodBegins, floodEnds, "#ffe38a")
	band(failure, returned, "#f4aca4")
	fmt.Fprintf(b, `<text x="%d" y="%d" font-weight="bold" fill="#222">%s</text>`+"\n", plotLeft, top-8, html.EscapeString(p.title))
	for _, part := range []float64{0, 0.5, 1} {
		at := y(part * p.max)
		fmt.Fprintf(b, `<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#ddd"/>`+"\n", plotLeft, plotWidth-plotRight, at, at)
		fmt.Fprintf(b, `<text x="%d" y="%.1f" text-anchor="end" fill="#444">%s</text>`+"\n", plotLeft-6, at+4, p.label(part*p.max))
	}
	step := (p.to - p.from) / 8
	for hour := p.from; hour <= p.to; hour += step {
		fmt.Fprintf(b, `<text x="%.1f" y="%d" text-anchor="middle" fill="#444">%02d:%02d</text>`+"\n", p.x(hour), top+panelHeight+15, int(hour), int(hour*60)%60)
	}
	for _, s := range slices.Concat(p.dashed, p.lines) {
		path, move := "", "M"
		for bin, value := range s.values {
			if hour := (float64(bin) + 0.5) / binsPerHour; hour >= p.from && hour <= p.to {
				path += fmt.Sprintf("%s%.1f %.1f", move, p.x(hour), y(value))
				move = "L"
			}
		}
		fmt.Fprintf(b, `<path d="%s" fill="none" stroke="%s" stroke-width="1.6" stroke-dasharray="%s"/>`+"\n", path, s.colour, s.dash)
	}
	left := plotWidth - plotRight + 10
	for i, s := range p.lines {
		at := top + 12 + i*18
		fmt.Fprintf(b, `<line x1="%d" x2="%d" y1="%d" y2="%d" stroke="%s" stroke-width="2" stroke-dasharray="%s"/>`+"\n", left, left+24, at-4, at-4, s.colour, s.dash)
		fmt.Fprintf(b, `<text x="%d" y="%d" fill="#222">%s</text>`+"\n", left+30, at, html.EscapeString(s.name))
	}
}

func percentLabel(x float64) string { return fmt.Sprintf("%.0f %%", x) }

// overBins makes a line of a value of each bin.
func overBins(name, colour, dash string, value func(bin int) float64) series {
	s := series{name: name, colour: colour, dash: dash}
	for bin := range int(day) * binsPerHour {
		s.values = append(s.values, value(bin))
	}
	return s
}

// all is what happened in a bin to the utterances of all tenants.
func (m *measurements) all(bin int) counts {
	all := newCounts()
	for i := range m.bins[bin] {
		all.add(&m.bins[bin][i])
	}
	return all
}

// ratePanel shows the load.
func (m *model) ratePanel() panel {
	rate := func(bin, n int) float64 { return float64(n) / max(m.measured.binUsage[bin].seconds(), 0.1) }
	p := panel{title: "utterances a second", to: day, label: thousands, lines: []series{
		overBins("sent", "#d62728", "", func(bin int) float64 { return rate(bin, m.measured.all(bin).sent) }),
		overBins("got a slot", "#1f77b4", "", func(bin int) float64 { return rate(bin, m.measured.all(bin).placed) }),
		overBins("all slots busy", "#444", "4 3", func(bin int) float64 {
			u := &m.measured.binUsage[bin]
			return 1000 * float64(u.slots) / float64(max(u.samples, 1)) / meanService()
		}),
	}}
	for _, s := range p.lines {
		for _, value := range s.values {
			p.max = max(p.max, value)
		}
	}
	unit := math.Pow(10, math.Floor(math.Log10(p.max))) / 2
	p.max = math.Ceil(p.max/unit) * unit
	return p
}

// waitPanel shows how long utterances wait that get a slot, on a logarithmic axis.
func (m *model) waitPanel() panel {
	p := panel{title: "wait of those that get a slot", from: busyFrom, to: busyTo, max: math.Log10(waitLimit), label: func(x float64) string {
		return (time.Duration(math.Round(math.Pow(10, x))) * time.Millisecond).String()
	}}
	for i, quantile := range []float64{50, 95, 99} {
		p.lines = append(p.lines, overBins(fmt.Sprintf("p%.0f", quantile), []string{"#1f77b4", "#ff7f0e", "#d62728"}[i], "", func(bin int) float64 {
			all := m.measured.all(bin)
			return math.Log10(float64(max(all.waits.ValueAtQuantile(quantile), 1)))
		}))
	}
	return p
}

// refusalPanel shows which part of their utterances tenants are refused.
func (m *model) refusalPanel() panel {
	p := panel{title: "refused, of what a tenant sends", from: busyFrom, to: busyTo, max: 100, label: percentLabel}
	for i, t := range tenantPlans {
		p.lines = append(p.lines, overBins(string(t.id), tenantColours[i], "", func(bin int) float64 {
			c := &m.measured.bins[bin][i]
			return 100 * float64(c.refused()) / float64(max(c.sent, 1))
		}))
	}
	return p
}

// sharePanel shows what tenants get, and what they are entitled to.
func (m *model) sharePanel() panel {
	p := panel{title: "share of the slots that tenants without a pool get; dashed: what they are entitled to", from: busyFrom, to: busyTo, max: 70, label: percentLabel}
	for k, s := range sharesOf(m.measured.bins[0]) {
		value := func(bin int, of func(*share) float64) float64 {
			shares, all := sharesOf(m.measured.bins[bin]), 0.0
			for i := range shares {
				all += shares[i].got
			}
			return 100 * of(&shares[k]) / max(all, 1)
		}
		colour := tenantColours[s.tenant]
		p.lines = append(p.lines, overBins(string(tenantPlans[s.tenant].id), colour, "", func(bin int) float64 {
			return value(bin, func(s *share) float64 { return s.got })
		}))
		entitled := overBins("", colour, "3 3", func(bin int) float64 { return value(bin, func(s *share) float64 { return s.entitled }) })
		p.dashed = append(p.dashed, entitled)
	}
	return p
}
