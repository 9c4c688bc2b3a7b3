package redistest

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// Delay lets all that the server sends from now on arrive so much later, in order. Zero ends it.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// Cut closes all connections now. New ones work.
func (p *Proxy) Cut() {
	p.mu.Lock()
	links := slices.Collect(maps.Keys(p.links))
	p.mu.Unlock()
	for _, l := range links {
		l.cut()
	}
}

// Refuse closes all connections and the door behind them, or opens it again.
func (p *Proxy) Refuse(yes bool) {
	p.tb.Helper()
	if !yes {
		p.open()
		return
	}
	p.mu.Lock()
	listener := p.listener
	p.listener = nil
	p.mu.Unlock()
	if listener != nil {
		_ = listener.Close()
	}
	p.Cut()
}

// open listens, unless it does. A child that another test starts right now holds a copy of the old socket until
// it runs its own program, so the port may take a moment to be free.
func (p *Proxy) open() {
	p.tb.Helper()
	eventually(p.tb, startTimeout, func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.listener != nil {
			return nil
		}
		listener, err := p.listen()
		if err != nil {
			return fmt.Errorf("the proxy cannot listen at %s: %w", p.addr, err)
		}
		p.listener = listener
		return nil
	})
}

// Freeze makes it as a hung server is: connections are accepted, and nothing passes in either direction until
// the freeze ends. Then all that was sent meanwhile passes.
func (p *Proxy) Freeze(yes bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case yes && p.thaw == nil:
		p.thaw = make(chan struct{})
	case !yes && p.thaw != nil:
		close(p.thaw)
		p.thaw = nil
	}
}

// DropReplies loses the next n replies, on whichever connections they come, and each time closes that connection.
// The server has done what it was asked to, and the client cannot know. Replies that come together, as those of a
// pipeline do, are lost together and count once. Zero ends it.
func (p *Proxy) DropReplies(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.toDrop = n
}

// Dropped is how many replies DropReplies has lost.
func (p *Proxy) Dropped() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dropped
}

// drops reports whether the reply at hand is to be lost.
func (p *Proxy) drops() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.toDrop <= 0 {
		return false
	}
	p.toDrop--
	p.dropped++
	return true
}

// due is when what the server sent just now may arrive.
func (p *Proxy) due() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Now().Add(p.delay)
}

func (p *Proxy) frozen() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.thaw
}
