package bus

// Excused returns how many messages have a counter of failures that were the store's fault.
func (r *Receiver) Excused() int {
	r.excused.mu.Lock()
	defer r.excused.mu.Unlock()
	return len(r.excused.n)
}
