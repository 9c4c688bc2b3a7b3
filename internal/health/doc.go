// Package health decides which services and nodes are trusted. Catalog is a copy of the list of services of a ModelHub, whose contract
// docs/model-hub.md describes. UnavailableWorker marks services that nodes report as unavailable. Tracker counts the attempts of nodes, and
// Ejector, on the instance that leads, ejects nodes that fail much more often than others.
package health
