package redisstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
	"github.com/sony/gobreaker/v2"
	"golang.org/x/time/rate"

	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
)

const (
	// maxInFlight bounds the commands in flight. rueidis queues them in a ring per connection, and a caller that finds the ring full
	// waits whatever its context says: no caller may get that far.
	maxInFlight = 1 << 10
	ringScale   = 11 // the ring of one connection holds 2^11 commands

	breakerFailures = 5                      // consecutive failures that open the breaker
	breakerTimeout  = 100 * time.Millisecond // how long it stays open before one call may try again

	logBurst = 20 // lines about stored values at once; then one a second: a loop may meet one again and again
)

var (
	errTimeout = errors.New("no answer in time")
	errLate    = errors.New("it arrived after its deadline and did nothing")
)

// client guards the access to Redis. rueidis alone would let a caller wait longer than its context, and would execute everything
// that has queued up once Redis is back. So permits bound the commands in flight, and a circuit breaker refuses calls at once when
// none is answered. A permit is released by the reply or by the end of the connection, not when the caller gives up.
type client struct {
	redis        rueidis.Client
	reads        *blockingReads
	people       *client // for reads that people ask for; nil: this is it
	cluster      bool
	clocks       *clocks
	timeout      time.Duration
	callDeadline *run.Limit
	permits      chan struct{}
	batchMu      run.Mutex // held while a caller acquires more than one permit
	breaker      *gobreaker.TwoStepCircuitBreaker[struct{}]
	lastReplyOK  atomic.Bool
	onError      func(store.ErrorClass)
	onCall       func(took time.Duration)
	health       health
	abandoned    abandonedPermits
	detached     *run.Group   // goroutines that wait for replies in place of callers
	log          *slog.Logger // of what is stored and cannot be used
	logLimit     *rate.Limiter
}

// newClient makes a client whose callers wait no longer than timeout. onHealth is called when Redis becomes unavailable and when it
// is available again, and onError with the class of every error.
func newClient(ctx context.Context, redis rueidis.Client, cluster bool, timeout time.Duration, onHealth func(up bool),
	onError func(store.ErrorClass)) *client {
	slots := 1
	if cluster {
		slots = slotCount
	}
	c := &client{
		redis: redis, cluster: cluster, clocks: newClocks(slots), timeout: timeout, callDeadline: run.NewLimit(ctx, timeout, nil),
		permits: make(chan struct{}, maxInFlight), batchMu: run.NewMutex("redis_permits"), detached: run.NewGroup(),
		onError: onError, onCall: func(time.Duration) {},
		health:    health{onChange: onHealth, mu: run.NewMutex("redis_health")},
		abandoned: abandonedPermits{maxAge: 4 * connTimeoutsFor(timeout).silent, mu: run.NewMutex("redis_abandoned")},
		log:       slog.New(slog.DiscardHandler), logLimit: rate.NewLimiter(rate.Every(time.Second), logBurst),
	}
	c.breaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Timeout:      breakerTimeout,
		IsExcluded:   isInconclusive,
		IsSuccessful: func(err error) bool { return !isDown(err) },
		ReadyToTrip:  func(n gobreaker.Counts) bool { return n.ConsecutiveFailures >= breakerFailures },
		OnStateChange: func(_ string, _, to gobreaker.State) {
			c.health.set(&c.health.unreachable, to != gobreaker.StateClosed)
		},
	})
	return c
}

// addPeople gives the reads that people ask for connections, permits and a breaker of their own. It says nothing of the health of the
// store.
func (c *client) addPeople(ctx context.Context, redis rueidis.Client) {
	p := newClient(ctx, redis, c.cluster, c.timeout, func(bool) {}, c.onError)
	p.clocks, p.onCall, p.log, p.logLimit = c.clocks, c.onCall, c.log, c.logLimit
	c.people = p
}

// of returns the client for a context. The way of a job does not pass here: it has no plain commands and no scripts that only read.
func (c *client) of(ctx context.Context) *client {
	if c.people != nil && store.IsForPeople(ctx) {
		return c.people
	}
	return c
}

// close ends every command in flight.
func (c *client) close() {
	if c.people != nil {
		c.people.close()
	}
	c.redis.Close()
	c.abandoned.stop()
	c.detached.Close()
}

// call holds the time limits of one caller.
type call struct {
	ctx          context.Context
	timeout      context.Context
	conclusiveAt time.Time // a caller that has waited until then without a reply is evidence that Redis does not answer
}

func (c *client) beginCall(ctx context.Context) call {
	return call{ctx: ctx, timeout: c.callDeadline.Context(), conclusiveAt: time.Now().Add(c.timeout / 2)}
}

// earliest returns the context that ends first.
func (c call) earliest() context.Context {
	own, ok := c.ctx.Deadline()
	end, _ := c.timeout.Deadline()
	if ok && own.Before(end) {
		return c.ctx
	}
	return c.timeout
}

// timeoutError returns why the caller has stopped waiting.
func (c call) timeoutError() error {
	if err := c.ctx.Err(); err != nil && time.Now().Before(c.conclusiveAt) {
		return err // it left, or came with little time: that is no evidence against Redis
	}
	return fmt.Errorf("%w: %w", store.ErrDown, errTimeout)
}

// acquire gets permits for n commands. Only one caller at a time acquires several: two that each had half of them would wait for
// each other.
func (c *client) acquire(call call, n int) error {
	if n > 1 {
		c.batchMu.Lock()
		defer c.batchMu.Unlock()
	}
	for got := range n {
		select {
		case c.permits <- struct{}{}:
			continue
		default:
		}
		select {
		case c.permits <- struct{}{}:
			continue
		case <-call.ctx.Done():
		case <-call.timeout.Done():
		}
		c.release(got)
		return call.timeoutError()
	}
	return nil
}

func (c *client) release(n int) {
	for range n {
		<-c.permits
	}
}

// do sends a command and returns its reply, and counts its error.
func (c *client) do(call call, cmd rueidis.Completed) (rueidis.RedisMessage, error) {
	began, key := time.Now(), keyOf(cmd)
	m, err := c.send(call, cmd)
	c.countCall(began, err)
	c.logRefused(key, err)
	return m, err
}

// send is do without the count. While Redis answers, the caller itself waits for the reply: rueidis returns when the
// context ends, except while it establishes a connection, which has a timeout of its own.
func (c *client) send(call call, cmd rueidis.Completed) (rueidis.RedisMessage, error) {
	if !c.lastReplyOK.Load() {
		return c.doThroughBreaker(call, cmd)
	}
	if err := c.acquire(call, 1); err != nil {
		c.reportToBreaker(err)
		return rueidis.RedisMessage{}, err
	}
	number := c.abandoned.nextCommand()
	m, err := c.redis.Do(call.earliest(), cmd).ToMessage()
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		c.release(c.abandoned.abandon(1, c.release))
		err = call.timeoutError()
	} else {
		c.release(1 + c.abandoned.reclaim(number))
		err = convertError(err)
	}
	c.reportToBreaker(err)
	return m, err
}

// command sends a command of a new call and returns its reply.
func (c *client) command(ctx context.Context, cmd rueidis.Completed) (rueidis.RedisMessage, error) {
	return c.of(ctx).do(c.beginCall(ctx), cmd)
}

// doThroughBreaker is send while it is not known whether Redis answers.
func (c *client) doThroughBreaker(call call, cmd rueidis.Completed) (rueidis.RedisMessage, error) {
	result, err := sendThroughBreaker(c, call, 1, func(ctx context.Context) rueidis.RedisResult { return c.redis.Do(ctx, cmd) },
		rueidis.RedisResult.Error)
	if err != nil {
		return rueidis.RedisMessage{}, err
	}
	m, err := result.ToMessage()
	return m, convertError(err)
}

// doMulti sends commands as one pipeline and returns their replies in order.
func (c *client) doMulti(call call, cmds []rueidis.Completed) ([]rueidis.RedisResult, error) {
	c = c.of(call.ctx)
	began := time.Now()
	results, err := sendThroughBreaker(c, call, len(cmds),
		func(ctx context.Context) []rueidis.RedisResult { return c.redis.DoMulti(ctx, cmds...) }, firstDown)
	c.countCall(began, err)
	return results, err
}

// countCall counts the error of a call, or how long its answer took.
func (c *client) countCall(began time.Time, err error) {
	c.countError(err)
	if !isDown(err) && !isInconclusive(err) {
		c.onCall(time.Since(began))
	}
}

// firstDown returns the first error in a list of replies that says that Redis is unavailable.
func firstDown(results []rueidis.RedisResult) error {
	for i := range results {
		if err := convertError(results[i].Error()); isDown(err) {
			return err
		}
	}
	return nil
}

// sendThroughBreaker sends n commands, if the breaker allows it, and returns the replies unless Redis is unavailable.
func sendThroughBreaker[T any](c *client, call call, n int, do func(context.Context) T, failure func(T) error) (T, error) {
	var none T
	report, err := c.breaker.Allow()
	if err != nil {
		return none, fmt.Errorf("%w: %w", store.ErrDown, store.ErrBreakerOpen)
	}
	if err := c.acquire(call, n); err != nil {
		report(err)
		return none, err
	}
	reply, err := doDetached(c, call, n, do)
	if err == nil {
		if err = convertError(failure(reply)); !isDown(err) {
			err = nil
		}
	}
	report(err)
	c.recordResult(err)
	if err != nil {
		return none, err
	}
	return reply, nil
}

// reportToBreaker reports the result of a command that was sent without the breaker. It does nothing while replies are good.
func (c *client) reportToBreaker(err error) {
	if isInconclusive(err) || err == nil && c.lastReplyOK.Load() {
		return
	}
	report, refused := c.breaker.Allow()
	if refused == nil {
		report(err)
	}
	if refused == nil || err != nil { // a good reply does not overrule a breaker that has opened meanwhile
		c.recordResult(err)
	}
}

// recordResult remembers whether the last reply was good.
func (c *client) recordResult(err error) {
	if isInconclusive(err) {
		return
	}
	c.lastReplyOK.Store(!isDown(err))
	if err != nil && refusesWrites(err) {
		c.health.set(&c.health.readOnly, true)
	}
}

// doDetached waits for the reply in another goroutine, so that the caller can return when its time is over, whatever rueidis waits
// for.
func doDetached[T any](c *client, call call, n int, do func(context.Context) T) (T, error) {
	reply := make(chan T, 1)
	var none T
	if !c.detached.Go(func(context.Context) {
		defer c.release(n)
		reply <- do(context.Background()) //nolint:forbidigo // closing the connection ends it; a context that can end costs more
	}) {
		c.release(n)
		return none, fmt.Errorf("%w: %w", store.ErrDown, rueidis.ErrClosing)
	}
	select {
	case r := <-reply:
		return r, nil
	case <-call.ctx.Done():
	case <-call.timeout.Done():
	}
	return none, call.timeoutError()
}

// isInconclusive reports whether an error is no evidence for or against Redis: the caller left before Redis had to answer. A
// connection that could not be established in time has the same cause, but is a failure of Redis.
func isInconclusive(err error) bool {
	return !isDown(err) && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded))
}

// isDown reports whether an error says that Redis is unavailable. Every other error is an answer.
func isDown(err error) bool { return errors.Is(err, store.ErrDown) }

// write runs a command that writes a key. A key of another type is removed first: it has nothing any more of what was stored.
func (s *Store) write(ctx context.Context, key string, command func() rueidis.Completed) error {
	_, err := s.client.command(ctx, command())
	if isWrongType(err) {
		if _, err = s.client.command(ctx, s.client.redis.B().Del().Key(key).Build()); err == nil {
			_, err = s.client.command(ctx, command())
		}
	}
	return err
}

// setValue writes a value with a TTL.
func (s *Store) setValue(ctx context.Context, key string, body []byte, ttl time.Duration) error {
	_, err := s.client.command(ctx, s.client.redis.B().Set().Key(key).Value(string(body)).Px(ttl).Build())
	return err
}

// getValue reads a value, nil when there is none.
func (s *Store) getValue(ctx context.Context, key string) ([]byte, error) {
	m, err := s.client.command(ctx, s.client.redis.B().Get().Key(key).Build())
	if err != nil || m.IsNil() {
		return nil, err
	}
	text, err := m.ToString()
	return []byte(text), err
}

// getValues reads values, nil where there is none: by one command, or by one each if they may be on different servers.
func (s *Store) getValues(ctx context.Context, keys []string) ([][]byte, error) {
	values := make([][]byte, 0, len(keys))
	if len(keys) > 0 && !s.client.cluster {
		m, err := s.client.command(ctx, s.client.redis.B().Mget().Key(keys...).Build())
		if err != nil {
			return nil, err
		}
		parts, err := m.ToArray()
		for i := range parts {
			value, _ := parts[i].AsBytes() // none where it is nil
			values = append(values, value)
		}
		return values, err
	}
	for from := 0; from < len(keys); from += batchSize {
		batch := keys[from:min(from+batchSize, len(keys))]
		cmds := make([]rueidis.Completed, len(batch))
		for i, key := range batch {
			cmds[i] = s.client.redis.B().Get().Key(key).Build()
		}
		results, err := s.client.doMulti(s.client.beginCall(ctx), cmds)
		if err != nil {
			return nil, err
		}
		for _, r := range results {
			value, err := r.AsBytes()
			if err := convertError(err); err != nil {
				return nil, err
			}
			values = append(values, value)
		}
	}
	return values, nil
}

// maxAbandoned is how many permits may be abandoned at once. The others are for callers that try whether Redis is back; the ring has
// room for them.
const maxAbandoned = maxInFlight - 64

// abandonedPermits counts the permits of commands whose callers have left. They are free again when a later command was answered,
// because a connection answers in order, or when the connection must have been closed.
type abandonedPermits struct {
	// maxAge is how long an unanswered command can be in flight: a silent connection, after a ping or before one, is closed.
	maxAge        time.Duration
	lastCommand   atomic.Uint64 // numbers commands
	count         atomic.Int64
	lastAbandoned atomic.Uint64 // an answer to a later command than this one frees them

	mu    run.Mutex
	timer *time.Timer
}

func (p *abandonedPermits) nextCommand() uint64 { return p.lastCommand.Add(1) }

// abandon records that the callers of n commands have left, and returns how many of their permits are free at once.
func (p *abandonedPermits) abandon(n int, release func(int)) int {
	for count := p.count.Load(); ; count = p.count.Load() {
		if count+int64(n) > maxAbandoned {
			return n
		}
		if p.count.CompareAndSwap(count, count+int64(n)) {
			break
		}
	}
	p.lastAbandoned.Store(p.lastCommand.Load())
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer == nil {
		p.timer = time.AfterFunc(p.maxAge, func() { release(int(p.count.Swap(0))) })
	} else {
		p.timer.Reset(p.maxAge)
	}
	return 0
}

// reclaim returns how many abandoned permits are free now that a command was answered.
func (p *abandonedPermits) reclaim(number uint64) int {
	if p.count.Load() == 0 || number <= p.lastAbandoned.Load() {
		return 0
	}
	return int(p.count.Swap(0))
}

func (p *abandonedPermits) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer != nil {
		p.timer.Stop()
	}
}
