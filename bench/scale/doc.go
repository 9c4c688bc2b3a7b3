// Package scale models a day of a large deployment: a discrete-event simulation that selects nodes by the code of packages fleet and pick,
// and lets utterances wait by that of package fairqueue. It runs in virtual time. What the model has of its own are the sessions, the nodes
// with their slots, and what package dispatch does between these packages.
package scale
