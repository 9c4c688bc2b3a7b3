// Package guards measures whether work that is not dispatch delays dispatch: a ModelHub that fails, requests for the statistics, storms of
// reports about services, and heartbeats. Dispatch is measured at a fixed rate in alternating windows without and with that work.
//
//	make bench-guards
//
// Without -judge the tests only check that every dispatch succeeds, in windows that are too short to compare latencies.
package guards
