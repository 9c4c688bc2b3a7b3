// Package peers compares the scheduler with similar programs, on the same Redis in the same run. It is a module of its own,
// so that users of the scheduler do not download these programs.
package peers
