package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/lingua-scheduler/lingua/wire"
)

// release is the version, set when a release is built.
var release = "0.1.0-dev"

type versionCmd struct {
	JSON bool `help:"Print the version as JSON." name:"json"`
}

// Run prints the version.
func (c *versionCmd) Run(io streams) error {
	v := version()
	if c.JSON {
		return json.NewEncoder(io.out).Encode(v)
	}
	fmt.Fprintf(io.out, "lingua %s %s\n", v.Version, v.Go)
	if v.Commit != "" {
		fmt.Fprintf(io.out, "commit %s\n", v.Commit)
	}
	return nil
}

func version() wire.VersionResponse {
	v := wire.VersionResponse{Version: release, Go: runtime.Version()}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				v.Commit = s.Value
			}
		}
	}
	return v
}
