package redisstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
	"github.com/sony/gobreaker/v2"

	"github.com/lingua-scheduler/lingua/internal/deadline"
	"github.com/lingua-scheduler/lingua/internal/store"
)

const (
	// permits bounds the commands on their way. The client queues them in a ring for each connection, and whoever
	// finds the ring full waits whatever its context says: nobody may get that far.
	permits   = 1 << 10
	ringScale = 11 // the ring of one connection holds 2^11

	tripAfter = 5                      // failures in a row after which nobody is kept waiting
	tripFor   = 250 * time.Millisecond // how long until somebody may try again
)

var (
	errSlow = errors.New("no answer in time")
	errLate = errors.New("it arrived after its deadline and did nothing")
)

// line is the guarded way to Redis. The client underneath would let a caller wait longer than its context, and
// would carry out, once Redis is back, whatever had queued up; so there is a limit to how many commands are on
// their way, and a breaker that refuses at once when none of them is answered. A permit comes back with the reply, or
// with the end of the connection, not when the caller gives up.
type line struct {
	redis   rueidis.Client
	cluster bool
	clocks  *clocks
	within  time.Duration
	limit   *deadline.Limit
	permits chan struct{}
	several sync.Mutex // held while somebody takes more than one permit
	breaker *gobreaker.TwoStepCircuitBreaker[struct{}]
	well    atomic.Bool // the last reply was a good one
	health  health
	lent    lent           // permits of whoever did not wait for a reply
	work    sync.WaitGroup // those who wait beside callers
}

// newLine makes the way; no caller waits longer than within. The notice is told when the way is cut and when it is
// mended.
func newLine(life context.Context, redis rueidis.Client, cluster bool, within time.Duration, notice func(up bool)) *line {
	slots := 1
	if cluster {
		slots = slotCount
	}
	l := &line{
		redis: redis, cluster: cluster, clocks: newClocks(slots), within: within, limit: deadline.New(life, within, nil),
		permits: make(chan struct{}, permits), health: health{notice: notice},
	}
	l.breaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Timeout:       tripFor,
		IsExcluded:    left,
		IsSuccessful:  func(err error) bool { return blame(err) == nil },
		ReadyToTrip:   func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= tripAfter },
		OnStateChange: func(_ string, _, to gobreaker.State) { l.health.set(&l.health.cut, to != gobreaker.StateClosed) },
	})
	return l
}

// close ends every command that is on its way.
func (l *line) close() {
	l.redis.Close()
	l.lent.stop()
	l.work.Wait()
}

// call is one caller's time. Who has waited until tells, in vain, has something to say about Redis.
type call struct {
	ctx   context.Context
	limit context.Context
	tells time.Time
}

func (l *line) begin(ctx context.Context) call {
	return call{ctx: ctx, limit: l.limit.Context(), tells: time.Now().Add(l.within / 2)}
}

// sooner is the context that ends first.
func (c call) sooner() context.Context {
	own, ok := c.ctx.Deadline()
	end, _ := c.limit.Deadline()
	if ok && own.Before(end) {
		return c.ctx
	}
	return c.limit
}

// ended is why a caller's time is over.
func (c call) ended() error {
	if err := c.ctx.Err(); err != nil && time.Now().Before(c.tells) {
		return err // it left, or had come with little time; that says nothing about Redis
	}
	return fmt.Errorf("%w: %w", store.ErrDown, errSlow)
}

// take gets permits for n commands, one caller of several at a time: two that each had half would wait for
// each other.
func (l *line) take(c call, n int) error {
	if n > 1 {
		l.several.Lock()
		defer l.several.Unlock()
	}
	for got := range n {
		select {
		case l.permits <- struct{}{}:
			continue
		default:
		}
		select {
		case l.permits <- struct{}{}:
			continue
		case <-c.ctx.Done():
		case <-c.limit.Done():
		}
		l.give(got)
		return c.ended()
	}
	return nil
}

func (l *line) give(n int) {
	for range n {
		<-l.permits
	}
}

// one sends a command and returns its reply. While Redis answers, the caller waits for it itself: the client leaves
// when the time is over, but for making a connection, which takes a time of its own.
func (l *line) one(c call, cmd rueidis.Completed) (rueidis.RedisMessage, error) {
	if !l.well.Load() {
		return l.carefully(c, cmd)
	}
	if err := l.take(c, 1); err != nil {
		l.judge(err)
		return rueidis.RedisMessage{}, err
	}
	number := l.lent.next()
	m, err := l.redis.Do(c.sooner(), cmd).ToMessage()
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		l.give(l.lent.lend(1, l.give))
		err = c.ended()
	} else {
		l.give(1 + l.lent.answered(number))
		err = spoken(err)
	}
	l.judge(err)
	return m, err
}

// carefully is one while it is not known whether Redis answers.
func (l *line) carefully(c call, cmd rueidis.Completed) (rueidis.RedisMessage, error) {
	result, err := send(l, c, 1, func(ctx context.Context) rueidis.RedisResult { return l.redis.Do(ctx, cmd) }, rueidis.RedisResult.Error)
	if err != nil {
		return rueidis.RedisMessage{}, err
	}
	m, err := result.ToMessage()
	return m, spoken(err)
}

// many sends commands in one go and returns their replies in order.
func (l *line) many(c call, cmds []rueidis.Completed) ([]rueidis.RedisResult, error) {
	return send(l, c, len(cmds), func(ctx context.Context) []rueidis.RedisResult { return l.redis.DoMulti(ctx, cmds...) }, worst)
}

// worst is what a list of replies says about Redis.
func worst(results []rueidis.RedisResult) error {
	for i := range results {
		err := blame(spoken(results[i].Error()))
		if err != nil {
			return err
		}
	}
	return nil
}

// send sends n commands, if they may be sent, and returns what came back unless Redis is in no state to serve.
func send[T any](l *line, c call, n int, do func(context.Context) T, failure func(T) error) (T, error) {
	var none T
	settle, err := l.breaker.Allow()
	if err != nil {
		return none, fmt.Errorf("%w: %w", store.ErrDown, store.ErrBreakerOpen)
	}
	if err := l.take(c, n); err != nil {
		settle(err)
		return none, err
	}
	reply, err := beside(l, c, n, do)
	if err == nil {
		err = blame(spoken(failure(reply)))
	}
	settle(err)
	l.note(err)
	if err != nil {
		return none, err
	}
	return reply, nil
}

// judge tells the breaker what became of a command that was sent without asking it; nothing while all is well.
func (l *line) judge(err error) {
	if left(err) || err == nil && l.well.Load() {
		return
	}
	settle, refused := l.breaker.Allow()
	if refused == nil {
		settle(err)
	}
	if refused == nil || err != nil { // a good reply does not overrule a breaker that has opened meanwhile
		l.note(err)
	}
}

// note keeps whether the last reply was a good one.
func (l *line) note(err error) {
	if left(err) {
		return
	}
	l.well.Store(blame(err) == nil)
	if err != nil && unwritable(err) {
		l.health.set(&l.health.barred, true)
	}
}

// beside lets somebody else wait for the reply, so that the caller can leave when its time is over, whatever keeps the
// client.
func beside[T any](l *line, c call, n int, do func(context.Context) T) (T, error) {
	reply := make(chan T, 1)
	l.work.Go(func() {
		defer l.give(n)
		reply <- do(context.Background()) //nolint:forbidigo // its permit must outlive the caller
	})
	select {
	case r := <-reply:
		return r, nil
	case <-c.ctx.Done():
	case <-c.limit.Done():
	}
	var none T
	return none, c.ended()
}

// left reports whether a failure says nothing about Redis, good or bad: its caller left before Redis had to answer. A
// connection that could not be made in time looks alike, but is Redis's.
func left(err error) bool {
	return blame(err) == nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded))
}

// blame is what a failure says about Redis: nothing when it answered.
func blame(err error) error {
	if errors.Is(err, store.ErrDown) {
		return err
	}
	return nil
}
