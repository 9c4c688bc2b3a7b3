package pause

import "sync"

// Each calls fn with every one of a list, a few at a time, and returns when all calls have.
func Each[T any](atOnce int, list []T, fn func(T)) {
	next := make(chan T)
	var workers sync.WaitGroup
	for range min(atOnce, len(list)) {
		workers.Go(func() {
			for one := range next {
				fn(one)
			}
		})
	}
	for _, one := range list {
		next <- one
	}
	close(next)
	workers.Wait()
}
