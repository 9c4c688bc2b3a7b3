// Command gen writes the dashboards of deploy/grafana from the descriptions in this package: what a dashboard shows is in the file of its
// name, and what Grafana wants to have in JSON is in encode.go. `make dashboards` runs it.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	dir := flag.String("dir", "deploy/grafana", "directory of the dashboards")
	flag.Parse()
	for _, d := range dashboards() {
		text, err := encode(&d)
		if err == nil {
			err = os.WriteFile(filepath.Join(*dir, d.fileName()), text, 0o644) //nolint:gosec // Grafana runs as another user
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

// dashboards are all dashboards, in the order of their links.
func dashboards() []dashboard {
	return []dashboard{overview, dispatch, nodes, sessions, redis, instances}
}
