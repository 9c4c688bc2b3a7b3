package cluster

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"text/tabwriter"
	"time"
)

// median is the middle of a list.
func median[T cmp.Ordered](list []T) T { return part(list, 0.5) }

// part is what so much of a list is below.
func part[T cmp.Ordered](list []T, p float64) T {
	sorted := slices.Sorted(slices.Values(list))
	return sorted[min(len(sorted)-1, int(p*float64(len(sorted))))]
}

func inMS(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// ms writes a duration as the tables do.
func ms(d time.Duration) string { return fmt.Sprintf("%.2f ms", inMS(d)) }

// table prints rows of cells, the first of which is a heading. What a benchmark logs is cut after ten lines.
func table(title string, rows [][]string) {
	fmt.Printf("\n%s\n", title)
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, row := range rows {
		for _, cell := range row {
			fmt.Fprint(w, cell, "\t")
		}
		fmt.Fprintln(w)
	}
	_ = w.Flush()
}
