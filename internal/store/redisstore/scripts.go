package redisstore

import (
	"context"
	"crypto/sha1" //nolint:gosec // Redis identifies scripts by it
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

//go:embed scripts/*.lua
var scriptFiles embed.FS

// script is a Lua script that Redis executes atomically.
type script struct {
	name, text, sha string
	reply           *shape
}

var (
	scriptReserve         = loadScript("reserve", "ii")
	scriptReserveProbe    = loadScript("reserve_probe", "ii")
	scriptCommit          = loadScript("commit", "ii")
	scriptPark            = loadScript("park", "i")
	scriptRevoke          = loadScript("revoke", "i")
	scriptLease           = loadScript("lease", "?t")
	scriptLeases          = loadScript("leases", "T")
	scriptProbe           = loadScript("probe", "?(iiiiiii)")
	scriptNode            = loadScript("node", "?(tttttttti)|(iiiiiii)")
	scriptRegister        = loadScript("register", "i|(tttttt)(iiiiiii)TTTT")
	scriptHeartbeat       = loadScript("heartbeat", "i|(tttttt?tii)(iiiiiii)TTTT")
	scriptKeepAlive       = loadScript("keep_alive", "ii")
	scriptDrain           = loadScript("drain", "i")
	scriptConnect         = loadScript("connect", "i")
	scriptAdmit           = loadScript("admit", "i|(ttttttt)")
	scriptRemove          = loadScript("remove", "i")
	scriptMark            = loadScript("mark", "i")
	scriptMarked          = loadScript("marked", "T")
	scriptRecordLastSeen  = loadScript("record_last_seen", "i")
	scriptUnlist          = loadScript("unlist", "i")
	scriptLastSeen        = loadScript("last_seen", "T")
	scriptOverdue         = loadScript("overdue", "i?iT")
	scriptDigests         = loadScript("digests", "TT")
	scriptCreate          = loadScript("create", "i?t")
	scriptReplace         = loadScript("replace", "i?t")
	scriptAppend          = loadScript("append", "iit")
	scriptSave            = loadScript("save", "i")
	scriptRevocations     = loadScript("revocations", "?tiT")
	scriptMergeRevocation = loadScript("merge_revocations", "T")
	scriptAnnounce        = loadScript("announce", "i")
	scriptInstance        = loadScript("instance", "iiii?t")
	scriptMaybeAbsent     = loadScript("maybe_absent", "T")
	scriptPost            = loadScript("post", "i")
	scriptPending         = loadScript("pending", "(*ttti)")
	scriptAcknowledge     = loadScript("acknowledge", "i")
	scriptDeadLetter      = loadScript("deadletter", "t")
	scriptFetchAbandoned  = loadScript("fetch_abandoned", "(*ttti)")
	scriptRemoveInbox     = loadScript("remove_inbox", "ii")
	scriptClaimDeadLetter = loadScript("claim_dead_letter", "i|ti")
	scriptReplay          = loadScript("replay", "i")
	scriptDiscard         = loadScript("discard", "i")
	scriptAllow           = loadScript("allow", "i")
	scriptLock            = loadScript("lock", "ii")
	scriptUnlock          = loadScript("unlock", "i")
	scriptIncarnation     = loadScript("incarnation", "tii")
	scriptWriteValue      = loadScript("write_value", "i")
	scriptAdmitMember     = loadScript("admit_member", "iii")
	scriptRemoveMember    = loadScript("remove_member", "i")
	scriptRenewMembers    = loadScript("renew_members", "T")
	scriptTenantUse       = loadScript("tenant_use", "iiii")
)

// How a score contains a lease, and how a compact reply contains a code and a count; scripts/lib.lua says why.
const (
	tickMS       = 100           // the unit of times in scores
	scoreEpochMS = 1704067200000 // 2024-01-01, where the times in scores and compact replies begin
	scoreAges    = 1 << 16       // values of the time between reservation and expiry
	scoreCodes   = 16            // values of omission and state together
	leaseStates  = 4
	maxScore     = 1 << 53 // no score is as high
	maxDigits    = 16      // of a stored number: Lua keeps them all

	compactCodes  = 16
	compactCounts = 256
)

// leaseStateByCode are the states of a lease by their codes in scores.
var leaseStateByCode = [leaseStates]core.LeaseState{core.LeaseReserved, core.LeaseRunning, core.LeaseRevoked, core.LeaseParked}

// How often in a row the list of a node has omitted a job, as a score contains it.
const (
	omittedNever   = 0
	omittedOnce    = leaseStates
	omittedOrphan  = 2 * leaseStates
	omittedArrived = omittedOrphan // of a revoked lease: no list has omitted the job, and the node has acknowledged it
)

const (
	replyNotRegistered = -2 // of scripts that change a node: it is not registered
	replyNameTaken     = -1 // of register: the node is present, and this is not its registration

	recordWritten  = 1 // of create and replace: the record was written
	recordTooEarly = 2 // of replace: not_before is in the future

	maxDeadLetters = 10000 // of one inbox, about
	maxOutbox      = 1024  // unacknowledged messages of one session, about
	maxUnpack      = 2000  // values that one call in a script unpacks; Lua's stack bounds them

	inboxGroup       = "inbox"    // the consumer group of every inbox, and the consumer of its own instance
	takeoverConsumer = "takeover" // the consumer of the instance that takes an abandoned inbox over
	postedField      = "at"       // the field with the time at which a message was first posted, if its entry is younger
)

// luaConstants are the constants of the scripts, by their names there. This is their only definition: luaSources has the values
// instead of the names.
var luaConstants = func() map[string]string {
	constants := map[string]string{
		"INBOX_GROUP": "'" + inboxGroup + "'", "TAKEOVER_CONSUMER": "'" + takeoverConsumer + "'", "POSTED_FIELD": "'" + postedField + "'",
		"VERSION_FIELDS": "'" + strings.Join(versionFields, "', '") + "'", "ANY_VERSION": "'" + anyVersion + "'",
		"BODY_HEAD": "'^" + compressedMark + `([^\n]*)\n'`, // a Lua pattern
	}
	numbers := map[string]int64{
		"TICK": tickMS, "EPOCH": scoreEpochMS, "AGES": scoreAges, "CODES": scoreCodes, "STATES": leaseStates, "MAX_SCORE": maxScore,
		"MAX_DIGITS": maxDigits,
		"NEVER":      omittedNever, "ONCE": omittedOnce, "ORPHAN": omittedOrphan, "ARRIVED": omittedArrived,
		"COMPACT_CODES": compactCodes, "COMPACT_COUNTS": compactCounts,
		"NOT_REGISTERED": replyNotRegistered, "RECORD_WRITTEN": recordWritten, "RECORD_TOO_EARLY": recordTooEarly,
		"ACCEPTED": int64(store.Accepted), "INSTANCE_ABSENT": int64(store.InstanceAbsent), "INBOX_FULL": int64(store.InboxFull),
		"MAX_DEAD_LETTERS": maxDeadLetters, "MAX_OUTBOX": maxOutbox, "MAX_UNPACK": maxUnpack, "MEMBERS_TTL_MS": membersTTL.Milliseconds(),
		"MAX_MARKS": store.MaxMarks,
	}
	maps.Copy(numbers, waitConstants)
	for code, state := range leaseStateByCode {
		numbers[strings.ToUpper(state.String())] = int64(code)
	}
	for _, verdict := range store.Verdicts() {
		numbers[verdict.String()] = int64(verdict)
	}
	for name, value := range numbers {
		constants[name] = strconv.FormatInt(value, 10)
	}
	return constants
}()

// luaToken matches a comment, a string or a name in capitals.
var luaToken = regexp.MustCompile(`--[^\n]*|'(?:[^'\\\n]|\\.)*'|\b[A-Z][A-Z0-9_]*\b`)

// expandConstants replaces the names of constants by their values, except in comments and strings.
func expandConstants(text string) string {
	return luaToken.ReplaceAllStringFunc(text, func(token string) string {
		if value, ok := luaConstants[token]; ok {
			return value
		}
		return token
	})
}

const (
	standaloneMark = "-- standalone" // a script that begins with it does not get lib.lua
	includeMark    = "-- include "   // a script that begins with it gets that library too
)

// luaSources are the embedded files with their constants replaced, by name. Each is replaced once: most scripts begin with the same
// library.
var luaSources = func() map[string]string {
	files, err := fs.Glob(scriptFiles, "scripts/*.lua")
	if err != nil {
		panic(err) // the pattern is wrong
	}
	sources := make(map[string]string, len(files))
	for _, file := range files {
		name := strings.TrimSuffix(path.Base(file), ".lua")
		sources[name] = expandConstants(scriptSource(name))
	}
	return sources
}()

// loadScript returns an embedded script after the libraries that it needs, with the shape of its reply after the server's time.
func loadScript(name, reply string) script {
	text := luaSource(name)
	first, _, _ := strings.Cut(text, "\n")
	if library, ok := strings.CutPrefix(first, includeMark); ok {
		text = luaSource(library) + "\n" + text
	}
	if !strings.HasPrefix(first, standaloneMark) {
		text = luaSource("lib") + "\n" + text
	}
	sum := sha1.Sum([]byte(text)) //nolint:gosec // as above
	return script{name: name, text: text, sha: hex.EncodeToString(sum[:]), reply: shapeOf(reply)}
}

func luaSource(name string) string {
	text, ok := luaSources[name]
	if !ok {
		panic("no script " + name) // in every start and test
	}
	return text
}

func scriptSource(name string) string {
	text, err := scriptFiles.ReadFile("scripts/" + name + ".lua")
	if err != nil {
		panic(err) // it is embedded: only a wrong name can fail, in every start and test
	}
	return string(text)
}

// reply is the reply of a script without the server's time, with which every reply begins.
type reply struct {
	parts   []rueidis.RedisMessage
	compact [2]int64 // code and count, when there are no parts
	late    bool     // the script arrived after its deadline and did nothing
}

// runScript executes a script that writes. A script that arrived after its deadline did nothing: errLate.
func (c *client) runScript(ctx context.Context, s *script, keys []string, args ...string) (int64, reply, error) {
	slot := c.slotOf(keys[0])
	argv := append(make([]string, 1, len(args)+1), args...)
	for retried := false; ; retried = true {
		call := c.beginCall(ctx)
		argv[0] = strconv.FormatInt(c.clocks.notAfter(call.earliest(), slot), 10)
		now, r, err := c.evalScript(call, s, slot, keys, argv)
		if err != nil {
			return 0, reply{}, err
		}
		if !r.late {
			return now, r, nil
		}
		// It was late, or the estimate of the server's clock is wrong. If there is time left, it is the estimate.
		c.clocks.reset(slot, now)
		if retried || !hasTimeLeft(call.earliest()) {
			c.countError(errLate)
			return now, reply{}, fmt.Errorf("%s: %w", s.name, errLate)
		}
	}
}

// hasTimeLeft reports whether a caller has enough time for another try.
func hasTimeLeft(ctx context.Context) bool {
	end, ok := ctx.Deadline()
	return ctx.Err() == nil && (!ok || time.Until(end) > 10*time.Millisecond)
}

// readScript executes a script that writes nothing.
func (c *client) readScript(ctx context.Context, s *script, keys []string, args ...string) (int64, reply, error) {
	now, r, err := c.of(ctx).evalScript(c.beginCall(ctx), s, c.slotOf(keys[0]), keys, args)
	if r.late { // such a script is never late: its first part is missing
		err = c.malformed(keys[0])
	}
	return now, r, err
}

func (c *client) evalScript(call call, s *script, slot int, keys, args []string) (int64, reply, error) {
	m, err := c.do(call, c.evalSHA(s, keys, args))
	if isNoScript(err) {
		m, err = c.do(call, c.evalSource(s, keys, args))
	}
	if err != nil {
		return 0, reply{}, fmt.Errorf("%s: %w", s.name, err)
	}
	return c.parseReply(s, slot, keys[0], &m)
}

func (c *client) evalSHA(s *script, keys, args []string) rueidis.Completed {
	return c.redis.B().Evalsha().Sha1(s.sha).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build()
}

// evalSource sends the source of a script to a server that does not have it yet.
func (c *client) evalSource(s *script, keys, args []string) rueidis.Completed {
	return c.redis.B().Eval().Script(s.text).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build()
}

// isNoScript reports whether the server does not have the script: it has restarted, or another server has taken its place.
func isNoScript(err error) bool {
	reply, ok := rueidis.IsRedisErr(err)
	return ok && reply.IsNoScript()
}

// parseReply separates the server's time from the rest of a reply, and checks that.
func (c *client) parseReply(s *script, slot int, key string, m *rueidis.RedisMessage) (int64, reply, error) {
	if m.IsInt64() {
		word, err := m.AsInt64()
		now := word/(compactCodes*compactCounts) + scoreEpochMS
		c.clocks.observe(slot, now)
		return now, reply{compact: [2]int64{word / compactCounts % compactCodes, word % compactCounts}}, err
	}
	parts, err := m.ToArray()
	if err != nil || len(parts) == 0 || !parts[0].IsInt64() {
		return 0, reply{}, fmt.Errorf("%s: %w", s.name, c.malformed(key))
	}
	now, _ := parts[0].ToInt64()
	c.clocks.observe(slot, now)
	if len(parts) > 1 && !s.reply.fits(parts[1:]) {
		return 0, reply{}, fmt.Errorf("%s: %w", s.name, c.malformed(key))
	}
	return now, reply{parts: parts[1:], late: len(parts) == 1}, nil
}

// slotOf returns the index of a key's clock: its slot in a cluster, else 0.
func (c *client) slotOf(key string) int {
	if !c.cluster {
		return 0
	}
	return keySlot(key)
}

// scriptCall holds the keys and arguments of one of several calls of a script that writes nothing.
type scriptCall struct {
	keys []string
	args []string
}

// batchSize is how many commands are sent as one pipeline.
const batchSize = 64

// readEach executes a script that writes nothing many times, in pipelines, and calls each with every reply in order. What cannot be read is
// logged and left out: it must not hide the rest.
func (c *client) readEach(ctx context.Context, s *script, calls []scriptCall, each func(i int, now int64, r reply)) error {
	c = c.of(ctx)
	for from := 0; from < len(calls); from += batchSize {
		batch := calls[from:min(from+batchSize, len(calls))]
		call := c.beginCall(ctx)
		cmds := make([]rueidis.Completed, len(batch))
		for i, b := range batch {
			cmds[i] = c.evalSHA(s, b.keys, b.args)
		}
		results, err := c.doMulti(call, cmds)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		for i, b := range batch {
			m, err := results[i].ToMessage()
			if isNoScript(err) {
				m, err = c.do(call, c.evalSource(s, b.keys, b.args))
			}
			if err = convertError(err); err != nil {
				if classOf(err) != store.ErrorReply {
					return fmt.Errorf("%s: %w", s.name, err)
				}
				c.logRefused(b.keys[0], err)
				continue
			}
			if now, r, err := c.parseReply(s, c.slotOf(b.keys[0]), b.keys[0], &m); err == nil && !r.late {
				each(from+i, now, r)
			}
		}
	}
	return nil
}

// The accessors of a reply. Its shape was checked: the parts are there, and have the types that the script's header promises.

func (r reply) int(i int) int64 {
	if r.parts == nil {
		return r.compact[i]
	}
	n, _ := r.parts[i].AsInt64()
	return n
}

func (r reply) text(i int) string {
	s, _ := r.parts[i].ToString()
	return s
}

func (r reply) list(i int) reply {
	parts, _ := r.parts[i].ToArray()
	return reply{parts: parts}
}

func (r reply) texts(i int) []string {
	texts, _ := r.parts[i].AsStrSlice()
	return texts
}

func (r reply) isNil(i int) bool { return r.parts[i].IsNil() }
