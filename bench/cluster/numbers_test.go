package cluster

import (
	"fmt"
	"os"
	"text/tabwriter"
	"time"
)

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
