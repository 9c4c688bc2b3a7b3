// Package bench holds the benchmarks whose results are in docs/benchmarks.md. Speed is reported as a ratio to a ceiling or
// to another program that is measured in the same run, in alternating windows: a noisy machine slows both.
package bench
