package scale

// eventKind says what happens.
type eventKind uint8

const (
	eventSpeak  eventKind = iota // a session has said something
	eventDone                    // a node has finished an utterance
	eventRetry                   // an utterance whose node has vanished is placed again
	eventOffer                   // an offer has arrived at the instance of the waiter
	eventExpire                  // an utterance has waited as long as it may
)

// event is something that happens to a session or an utterance. It is void if the utterance has another turn by then.
type event struct {
	index uint32
	turn  uint32
	kind  eventKind
}

// horizon is how far in the future an event may be, in milliseconds.
const horizon = 1 << 16

// schedule has the events by the millisecond in which they happen.
type schedule struct {
	buckets [horizon][]event
	now     int64
}

// after adds an event that happens in so many milliseconds.
func (s *schedule) after(ms int64, e event) {
	at := (s.now + min(max(ms, 0), horizon-1)) % horizon
	s.buckets[at] = append(s.buckets[at], e)
}

// each calls do with the events of this millisecond, also with those that do adds.
func (s *schedule) each(do func(event)) {
	i := s.now % horizon
	for next := 0; next < len(s.buckets[i]); { // do may add some
		next++
		do(s.buckets[i][next-1])
	}
	s.buckets[i] = s.buckets[i][:0]
}
