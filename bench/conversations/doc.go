// Package conversations measures conversations: many sessions and nodes against one scheduler, which runs in a process
// of its own so that what it needs can be told from what they need.
package conversations
