package run

import "sync"

// ForEach calls fn with every element of list on at most workers goroutines, and returns when all calls have returned.
func ForEach[T any](workers int, list []T, fn func(T)) {
	next := make(chan T)
	var running sync.WaitGroup
	for range min(workers, len(list)) {
		running.Go(func() {
			for element := range next {
				fn(element)
			}
		})
	}
	for _, element := range list {
		next <- element
	}
	close(next)
	running.Wait()
}
