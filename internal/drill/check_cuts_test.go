package drill

// checkCuts holds what a session was told about where its utterances were cut against itself: once over each connection,
// before the end of the utterance, always the same, and never not at all.
func (t *talk) checkCuts(entries []entry) {
	type place struct {
		conn  int
		index int64
	}
	said, over := make(map[place]bool), make(map[place]bool)
	cuts := make(map[int64]entry)
	cut := false // the connection, at any time
	for _, e := range entries {
		at := place{e.Conn, e.Index}
		switch e.What {
		case told:
			if said[at] || over[at] {
				t.breaks(recut, "told %v, ended %v over the same connection before: %v", said[at], over[at], e)
			}
			said[at] = true
			if was, known := cuts[e.Index]; known && (was.Job != e.Job || was.Seq != e.Seq || was.Bytes != e.Bytes) && !t.lossAround(e.At) {
				t.breaks(recut, "it was %v, and became %v", was, e)
			}
			cuts[e.Index] = e
		case wired:
			over[at] = true
		case reconnecting:
			cut = true
		case terminal:
			if _, known := cuts[e.Index]; !known && !cut {
				t.breaks(recut, "it was never told: %v", e)
			}
		}
	}
}
