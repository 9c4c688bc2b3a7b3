// Package drill injects faults into a cluster of real processes under load, and checks what all participants saw against the
// guarantees of the scheduler.
//
// A drill is a cluster of package clustertest, load, faults and checks. The load comes from the drivers of clustertest, which
// keep journals. Faults are injected and undone one at a time. The checker then reads the journals and the
// store, and reports every violation of a guarantee with its evidence.
//
//	go test -count=1 -v ./test/drill                                              the short forms
//	go test -count=1 -v -timeout 30m -run TestInstanceKilled ./test/drill -drill-sessions 1000 -drill-every 5s -drill-for 2m
//	go test -count=1 -v -timeout 2h -run TestSoak ./test/drill -drill-for 1h
//	go test -count=1 -v -timeout 30m -run 'TestWaiting$' ./test/drill -drill-waiting-for 5m
//
// With -artifacts the journals and the logs of all processes are kept.
package drill
