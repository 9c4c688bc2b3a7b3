// Package cluster measures instances that share one Redis: the cost of an utterance whose node and session are connected to
// different instances, how the rate of jobs grows with the number of instances, how many Redis commands each operation
// costs, and whether the load is spread evenly over keys and servers. Every instance is a process of its own.
package cluster
