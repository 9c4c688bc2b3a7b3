// Package bench holds the benchmarks whose results stand in docs/benchmarks.md. Speed is reported as a ratio
// to a ceiling or a peer measured in the same run, in alternating windows: a noisy machine slows both.
package bench
