// Package agreement compares what `lingua bench` measures with the metrics of the scheduler that it measures. Run it with
// make bench-agreement.
package agreement
