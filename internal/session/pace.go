package session

import (
	"time"
)

// pace is how far audio has run ahead of real time. Silence earns nothing; a cut does, because what was said meanwhile
// comes at once.
type pace struct {
	ahead  time.Duration
	credit time.Duration
	last   time.Time
}

// heard takes in so much audio. It returns 0, or, when that came too fast and is not taken in, after how long it may come
// again.
func (p *pace) heard(now time.Time, d, limit time.Duration) (wait time.Duration) {
	p.ahead = max(0, p.ahead-now.Sub(p.last))
	p.last = now
	over := p.ahead + d - limit
	if over > p.credit {
		return over - p.credit
	}
	if over > 0 {
		p.credit -= over
		d -= over
	}
	p.ahead += d
	return 0
}
