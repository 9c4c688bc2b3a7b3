package bus

// Excused is of how many messages it is remembered that they failed because of the store.
func (b *Receiver) Excused() int {
	b.excused.mu.Lock()
	defer b.excused.mu.Unlock()
	return len(b.excused.n)
}
