// Package dispatch runs jobs: it reserves a slot, records the holder, delivers the job, takes the node's ACK and result, and
// moves the job to another node when an attempt fails, until the job has ended exactly once.
//
// Leases and records are kept strictly apart. Leases account for slots; the record decides outcomes, by compare-and-set on
// the holder. Everything in memory (in-flight jobs and their timers) is only the fast path: what is lost with the process is
// found again through the lease sets of the nodes.
//
// The parts, each in a file of its own:
//
//   - Dispatcher: the requests of clients (dispatch, wait, cancel, query) and the lifecycle of the package;
//   - selector: chooses a node and reserves a slot on it, with prober for batched reads of how full nodes are;
//   - inFlightTable: the jobs of this instance and their timers;
//   - runner: starts, resumes and times jobs; a jobRun takes one job through its attempts;
//   - Reports: messages from nodes about their jobs (ACK, result, failure);
//   - Reconciler: jobs whose lease, node or instance was lost;
//   - slots: releases and revokes leases; waitQueue: requests that wait for a free slot.
//
// It imports pick, fleet, store and core. Delivery to nodes is behind Transport and sessions are behind Outcomes, both
// declared here.
package dispatch
