// Package cluster measures instances that share one Redis: what it costs when a node and a session are connected with
// different instances, how the rate of jobs grows with instances, what each thing costs Redis, and whether any key or
// server has more to do than its share. Every instance is a process of its own.
package cluster
