// Package dashtest tests the dashboard in a browser, over instances that share a store and have the fleet of the demo. The programs that
// use the browser are in web/dashboard/browser; they ask this package for faults.
package dashtest
