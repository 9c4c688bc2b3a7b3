// Package convert converts between the messages of the API (package wire) and the types of the scheduler. It checks the form of
// what comes in; it decides nothing.
package convert
