package session

import (
	"slices"

	"github.com/lingua-scheduler/lingua/internal/audio"
	"github.com/lingua-scheduler/lingua/wire"
)

// The audio of an utterance that was committed on another instance is lost with that instance. If the utterance has no
// terminal message yet, the client sends its audio again: it is replayed into the same utterance, between the same frames.

// assignReplay handles a frame that was assigned to an utterance before. Audio of an utterance that has ended, or
// of none, is dropped.
func (in *intake) assignReplay(f *AudioFrame) *wire.Error {
	for len(in.replays) > 0 && in.received > in.replays[0].lastSeq {
		in.replays = in.replays[1:]
	}
	if len(in.replays) == 0 || in.received < in.replays[0].firstSeq {
		in.skipMissing()
		return nil
	}
	u := in.replays[0]
	// A frame within the utterance's bounds that names another utterance was not part of it the first time.
	if own := f.Utterance == "" || f.Utterance == u.id; own && len(f.Data) > 0 && !u.result.stored {
		if e := in.addReplay(u, f.Data); e != nil {
			return e
		}
	}
	if in.received < u.lastSeq {
		return nil
	}
	in.replays = in.replays[1:]
	in.skipMissing()
	if u.result.stored {
		u.releaseAudio()
		return nil // its node had the audio all along
	}
	u.storeAudio()
	in.session.enqueue(u)
	in.session.startPlacing(u)
	return nil
}

// addReplay adds replayed audio to its utterance, whose bounds stay as they were.
func (in *intake) addReplay(u *utterance, data []byte) *wire.Error {
	if e := audio.CheckFrame(&in.session.settings.Format, u.firstFrame(data), data); e != nil {
		return e
	}
	if e := u.reserveAudio(len(data)); e != nil {
		return e
	}
	first, last := u.firstSeq, u.lastSeq
	u.append(audioPiece{seq: in.received, data: slices.Clone(data)})
	u.firstSeq, u.lastSeq = first, last
	return nil
}

// isReplaying reports whether the audio of an utterance is still to be sent again.
func (in *intake) isReplaying(u *utterance) bool { return slices.Contains(in.replays, u) }

// startReplays continues before the first restored utterance whose audio is needed again.
func (in *intake) startReplays() {
	in.replays = slices.DeleteFunc(in.replays, func(u *utterance) bool { return u.result.stored })
	if len(in.replays) > 0 {
		in.received = min(in.received, in.replays[0].firstSeq-1)
	}
}

// neededAudio returns the audio that the client is asked to send again.
func (in *intake) neededAudio() []wire.AudioSpan {
	var spans []wire.AudioSpan
	for _, u := range in.replays {
		if u.needsAudio() {
			spans = append(spans, wire.AudioSpan{UtteranceIndex: u.turn - 1, FirstSeq: u.firstSeq, LastSeq: u.lastSeq})
		}
	}
	return spans
}

// skipEnded continues with the first audio that is needed again, or with the first frame that is not assigned. The caller
// reports that to the client before the client sends any.
func (in *intake) skipEnded() {
	in.replays = slices.DeleteFunc(in.replays, func(u *utterance) bool { return !u.needsAudio() })
	in.received = max(in.received, in.beforeNeeded())
}

// beforeNeeded is the last frame before the first that is needed again, or before the first that is not assigned.
func (in *intake) beforeNeeded() int64 {
	if len(in.replays) > 0 {
		return in.replays[0].firstSeq - 1
	}
	return in.assigned
}

// maySkipTo reports whether the client may leave out the frames up to one: they are assigned, and no utterance needs them.
func (in *intake) maySkipTo(seq int64) bool {
	return seq <= in.assigned && !slices.ContainsFunc(in.replays, func(u *utterance) bool { return u.needsAudio() && u.firstSeq <= seq })
}

// skipMissing continues after an utterance whose audio the client no longer has, once it is reached: with the next utterance
// whose audio is needed, or with the first frame that is not assigned.
func (in *intake) skipMissing() {
	if len(in.replays) == 0 || !in.replays[0].audioLost || in.received < in.replays[0].firstSeq-1 {
		return
	}
	for len(in.replays) > 0 && in.replays[0].audioLost {
		in.replays = in.replays[1:]
	}
	in.received, in.fresh = max(in.received, in.beforeNeeded()), 0
	in.acknowledge(true) // tells a client whose frames have no numbers where to continue
}
