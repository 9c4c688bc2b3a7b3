package scale

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/lingua-scheduler/lingua/bench/stats"
)

// print prints the tables of docs/benchmarks.md.
func (m *model) print(w io.Writer) {
	fmt.Fprintf(w, "%d nodes, %d slots, %d sessions that speak every %.2f s; %d utterances, %d of them retried; took %s\n",
		m.nodes, m.ledger.slots, len(m.sessions), m.gap/1000, m.measured.total().sent, m.measured.retried, m.measured.wall.Round(time.Second))
	printTable(w, m.phaseTable())
	printTable(w, m.tenantTable())
	printTable(w, m.shareTable())
	calls, surveys := &m.line.calls, &m.selector.surveys
	fmt.Fprintf(w, "of the slots of the pool for which both queues wait, the bound tenant gets %s\n", percent(m.measured.fairness.bound, m.measured.fairness.contested))
	fmt.Fprintf(w, "queues: %d enqueued, %d offers in %d calls, %d returned, %d dequeued, %d sweeps\n",
		calls.enqueue, calls.offers, calls.offer, calls.giveBack, calls.dequeue, calls.sweeps)
	fmt.Fprintf(w, "surveys: %d, %d with a slot; by package pick %d, of which %d found none though there was one (%d of these could probe all)\n",
		surveys.all, surveys.found, surveys.made, surveys.missed, surveys.wrong)
}

// total is what happened in the whole day.
func (m *measurements) total() counts {
	all := newCounts()
	for p := range m.phases {
		for i := range m.phases[p] {
			all.add(&m.phases[p][i])
		}
	}
	return all
}

func printTable(w io.Writer, rows [][]string) {
	fmt.Fprintln(w)
	for i, row := range rows {
		fmt.Fprintf(w, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			fmt.Fprintf(w, "|---%s|\n", strings.Repeat("|---:", len(row)-1))
		}
	}
	fmt.Fprintln(w)
}

// percent formats a part of a whole.
func percent(part, whole int) string {
	switch share := 100 * float64(part) / float64(max(whole, 1)); {
	case part == 0:
		return "0"
	case share < 0.01:
		return "< 0.01 %"
	case share < 9.95:
		return fmt.Sprintf("%.2g %%", share)
	default:
		return fmt.Sprintf("%.0f %%", share)
	}
}

// thousands formats a number with a comma between thousands.
func thousands(x float64) string {
	n := int(x + 0.5)
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(float64(n/1000)), n%1000)
}

func (c *counts) quantiles() string {
	return fmt.Sprintf("%s / %s / %s", thousands(float64(c.waits.ValueAtQuantile(50))), thousands(float64(c.waits.ValueAtQuantile(95))), thousands(float64(c.waits.ValueAtQuantile(99))))
}

// phaseTable has what happened in each phase.
func (m *model) phaseTable() [][]string {
	rows := [][]string{{"", "hours", "sent/s", "slots in use", "waited", "wait p50 / p95 / p99, ms", "`QUEUE_FULL`", "`CANNOT_BE_MET`", "end of the wait"}}
	for p := range phases {
		all := newCounts()
		for i := range tenantPlans {
			all.add(&m.measured.phases[p][i])
		}
		end := day
		if p+1 < len(phases) {
			end = phases[p+1].begin
		}
		u := &m.measured.usage[p]
		rows = append(rows, []string{
			phases[p].name, fmt.Sprintf("%v to %v", phases[p].begin, end), thousands(float64(all.sent) / u.seconds()), percent(u.taken, u.slots),
			percent(all.waited, all.sent), all.quantiles(), percent(all.ended[refusedQueueFull], all.sent), percent(all.ended[refusedCannotBeMet], all.sent),
			percent(all.ended[expired], all.sent),
		})
	}
	return rows
}

// tenantTable has what each tenant got while utterances waited.
func (m *model) tenantTable() [][]string {
	rows := [][]string{{"", "tenant", "weight", "sent/s", "got/s", "entitled to/s", "refused", "wait p50 / p95 / p99, ms"}}
	for p := phaseAt(floodBegins); p <= phaseAt(returned); p++ {
		entitled := make(map[int]string)
		for _, s := range sharesOf(m.measured.phases[p]) {
			entitled[s.tenant] = thousands(s.entitled / m.measured.usage[p].seconds())
		}
		for i := range tenantPlans {
			c, seconds := &m.measured.phases[p][i], m.measured.usage[p].seconds()
			rows = append(rows, []string{
				phases[p].name, string(tenantPlans[i].id), fmt.Sprint(tenantPlans[i].weight), thousands(float64(c.sent) / seconds),
				thousands(float64(c.placed) / seconds), entitled[i], percent(c.refused(), c.sent), c.quantiles(),
			})
		}
	}
	return rows
}

// shareTable compares the slots that tenants got while they waited with their weights.
func (m *model) shareTable() [][]string {
	f := &m.measured.fairness
	rows := [][]string{{"tenant", "windows", "slots it got", "of its entitlement", "windows within 5 %", "1 % of the windows below", "1 % above"}}
	for i, t := range tenantPlans {
		d := f.deviations[i]
		if len(d) == 0 {
			continue
		}
		within := 0
		for _, x := range d {
			if max(x, -x) <= maxDeviation {
				within++
			}
		}
		rows = append(rows, []string{
			string(t.id), fmt.Sprint(len(d)), thousands(f.granted[i]), fmt.Sprintf("%.3f", f.granted[i]/f.entitled[i]), percent(within, len(d)),
			fmt.Sprintf("%+.2f", stats.Percentile(d, 0.01)), fmt.Sprintf("%+.2f", stats.Percentile(d, 0.99)),
		})
	}
	return slices.Clip(rows)
}
