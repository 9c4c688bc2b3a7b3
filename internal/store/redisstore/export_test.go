package redisstore

// Quiesce waits until the releases that are on their way have arrived.
func (s *Store) Quiesce() { s.releases.work.Wait() }
