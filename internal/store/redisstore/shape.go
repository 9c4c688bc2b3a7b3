package redisstore

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/rueidis"

	"github.com/lingua-scheduler/lingua/internal/store"
)

// shape is what the parts of a reply are, so that no accessor of a reply finds another type or no part at all, whatever is stored. Redis
// ends the list that a script returns at its first nil, such as a number that could not be read.
//
//	i    an integer, or a text that is one
//	t    a text
//	T    a list of texts
//	()   a list of parts
//	?    before a part that may be nil
//	|    the parts from here on are all there, or none is
//	*    the parts from here on are there any number of times
type shape struct {
	kind     byte // i, t, T, or ( for a list
	optional bool
	parts    []shape
	first    int // how many parts there are at least
	repeated int // how many of the last parts are there any number of times
}

// shapeOf parses the notation of a shape, of which the source of this package has every one.
func shapeOf(text string) *shape {
	s, rest := parseParts(text)
	if rest != "" {
		panic("the shape of a reply is not complete: " + text)
	}
	return &s
}

// parseParts parses parts up to the end of their list, and returns what follows it.
func parseParts(text string) (s shape, rest string) {
	s = shape{kind: '(', first: -1}
	begin, optional := -1, false
	for ; text != "" && text[0] != ')'; text = text[1:] {
		part := shape{kind: text[0], optional: optional}
		switch text[0] {
		case '?':
			optional = true
			continue
		case '|':
			s.first = len(s.parts)
			continue
		case '*':
			begin = len(s.parts)
			continue
		case '(':
			part, text = parseParts(text[1:])
			part.optional = optional
		}
		s.parts, optional = append(s.parts, part), false
	}
	if begin >= 0 {
		s.repeated = len(s.parts) - begin
	}
	if s.first < 0 {
		s.first = len(s.parts) - s.repeated
	}
	return s, text
}

// fits reports whether parts of a reply are as the shape says.
func (s *shape) fits(parts []rueidis.RedisMessage) bool {
	n := len(parts)
	if n != s.first && n != len(s.parts) && (s.repeated == 0 || n < s.first || (n-s.first)%s.repeated != 0) {
		return false
	}
	for i := range parts {
		part := i
		if i >= len(s.parts) {
			part = s.first + (i-s.first)%s.repeated
		}
		if !s.parts[part].fitsPart(&parts[i]) {
			return false
		}
	}
	return true
}

func (s *shape) fitsPart(m *rueidis.RedisMessage) bool {
	if m.IsNil() {
		return s.optional
	}
	var err error
	switch s.kind {
	case 'i':
		_, err = m.AsInt64()
	case 't':
		_, err = m.ToString()
	default:
		var parts []rueidis.RedisMessage
		if parts, err = m.ToArray(); err == nil && s.kind == '(' {
			return s.fits(parts)
		}
		return err == nil && !slices.ContainsFunc(parts, func(m rueidis.RedisMessage) bool { return !m.IsString() && !m.IsNil() })
	}
	return err == nil
}

// errMalformed says that what is stored cannot be read: another program, or a person, has written it.
var errMalformed = errors.New("what is stored there cannot be read")

// malformed returns errMalformed with the key, which it logs. The value is left out: it may be anything.
func (c *client) malformed(key string) error {
	err := fmt.Errorf("%s: %w", key, errMalformed)
	c.countError(err)
	c.logRefused(key, err)
	return err
}

// logRefused logs an error that what is stored under a key has caused: the reply of a script, or that the key is of another type. Errors
// that have other causes are those of their callers alone.
func (c *client) logRefused(key string, err error) {
	if err != nil && classOf(err) == store.ErrorReply && c.logLimit.Allow() {
		c.log.Warn("what is stored under a key of Redis cannot be used; if nothing else mends it, delete the key", "key", key, "error", err)
	}
}

// isWrongType reports whether a command was refused because its key is of another type.
func isWrongType(err error) bool {
	var reply *rueidis.RedisError
	return errors.As(err, &reply) && strings.HasPrefix(reply.Error(), "WRONGTYPE")
}

// keyOf returns the key of a command, or the first of several. It must be called before the command is sent: the client library uses the
// memory again.
func keyOf(cmd rueidis.Completed) string {
	parts := cmd.Commands()
	at := 1
	if strings.HasPrefix(parts[0], "EVAL") {
		at = 3
	}
	if at >= len(parts) {
		return ""
	}
	return parts[at]
}
