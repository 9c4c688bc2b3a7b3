package redisstore

// Settle waits until the releases that are on their way have arrived.
func (s *Store) Settle() { s.releases.work.Wait() }
