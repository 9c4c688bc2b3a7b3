package bus

// Excused is of how many letters it is remembered that they failed through no fault of theirs.
func (b *Bus) Excused() int {
	b.excused.mu.Lock()
	defer b.excused.mu.Unlock()
	return len(b.excused.n)
}
