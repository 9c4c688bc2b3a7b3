// Package drill is what a fire brigade does on quiet days: it starts a whole cluster of real processes (Redis, instances
// of the scheduler, nodes of both kinds, people who speak and people who call), does to it what will be done to it one day,
// and holds what everybody saw against what was promised.
//
// A drill is a cluster, load, faults and rules. Load comes from drivers, which are processes of this test binary and keep
// a journal of everything they see. The nemesis begins and ends faults, one at a time. The checker then reads the
// journals and the stores and names every promise that was broken, with the evidence.
//
//	go test -count=1 -v ./internal/drill                                              the short forms
//	go test -count=1 -v -timeout 30m -run TestKilled ./internal/drill -drill-sessions 1000 -drill-every 5s -drill-for 2m
//	go test -count=1 -v -timeout 2h -run TestSoak ./internal/drill -drill-for 1h
//
// With -artifacts the journals and the logs of all processes are kept.
package drill
