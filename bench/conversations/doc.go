// Package conversations measures many sessions and nodes with one scheduler, which runs in a process of its own, so that
// its resource use can be distinguished from theirs.
package conversations
