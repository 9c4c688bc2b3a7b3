//go:build race

package clustertest

// RaceEnabled reports whether the race detector is on. It is then on in the binaries that Build builds, too.
const RaceEnabled = true
