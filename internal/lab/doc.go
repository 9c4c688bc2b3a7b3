// Package lab has what the commands demo, bench and modelhub run beside a scheduler: a simulated fleet with latencies and faults, a load
// generator with its report, and a stand-in for a ModelHub. It uses only the public protocols.
//
// The load is an open loop: every request has a time at which it is due, which does not depend on earlier responses, and its latency counts
// from that time. A scheduler that stalls therefore shows the latency of all requests that a real user would have sent meanwhile. How late
// the generator itself was is recorded too, because a generator that lags measures itself.
package lab
