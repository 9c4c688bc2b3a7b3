package cluster

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"text/tabwriter"
	"time"
)

// median returns the median of a list.
func median[T cmp.Ordered](list []T) T { return percentile(list, 0.5) }

// percentile returns the value below which a share of the list is.
func percentile[T cmp.Ordered](list []T, p float64) T {
	sorted := slices.Sorted(slices.Values(list))
	return sorted[min(len(sorted)-1, int(p*float64(len(sorted))))]
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// formatMS formats a duration for a table.
func formatMS(d time.Duration) string { return fmt.Sprintf("%.2f ms", milliseconds(d)) }

// printTable prints rows of cells, the first of which is a heading. The log of a benchmark would be cut after ten lines.
func printTable(title string, rows [][]string) {
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
