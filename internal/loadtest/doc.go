// Package loadtest sends load to a running scheduler at a fixed rate and measures how it responds. It uses only the public
// protocol: HTTP dispatches or sessions as load, and stand-in nodes of its own or the nodes that the scheduler has.
//
// The load is an open loop: every request has a time at which it is due, which does not depend on earlier responses, and its
// latency counts from that time. A scheduler that stalls therefore shows the latency of all requests that a real user would
// have sent meanwhile. How late the generator itself was is recorded too, because a generator that lags measures itself.
package loadtest
