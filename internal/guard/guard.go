// Package guard keeps work that is not dispatch off the path of dispatch. Dispatch only puts observations into bounded queues, and requests
// only read copies in memory; everything else happens in goroutines of this package.
//
// Services: Catalog is a copy of the list of services of a ModelHub. UnavailableWorker marks services that nodes report as unavailable.
package guard
