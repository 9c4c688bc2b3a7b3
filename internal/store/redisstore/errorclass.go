package redisstore

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/redis/rueidis"

	"github.com/lingua-scheduler/lingua/internal/store"
)

// countError counts the error of a call by its class.
func (c *client) countError(err error) {
	if err == nil {
		return
	}
	if class := classOf(err); class != "" {
		c.onError(class)
	}
}

// classOf returns the class of the error of a call; empty if it is none of Redis: the caller has left, the script is sent again with its
// source, or the inbox or the stream of changes does not exist yet.
func classOf(err error) store.ErrorClass {
	var reply *rueidis.RedisError
	switch {
	case errors.As(err, &reply):
		return classOfReply(reply.Error())
	case errors.Is(err, store.ErrBreakerOpen):
		return store.ErrorBreaker
	case errors.Is(err, errLate):
		return store.ErrorTooLate
	case errors.Is(err, errMalformed):
		return store.ErrorReply
	case errors.Is(err, errTimeout):
		return store.ErrorTimeout
	case isConnectionError(err):
		return store.ErrorConnection
	case isDown(err) && errors.Is(err, context.DeadlineExceeded): // while a connection was made
		return store.ErrorTimeout
	case errors.Is(err, context.DeadlineExceeded):
		return store.ErrorDeadline
	case errors.Is(err, context.Canceled):
		return ""
	}
	return store.ErrorOther
}

// isConnectionError reports whether a connection could not be made, or was lost.
func isConnectionError(err error) bool {
	var network *net.OpError
	return errors.Is(err, rueidis.ErrClosing) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, net.ErrClosed) ||
		errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) ||
		errors.As(err, &network)
}

// noSuchKey is the reply to a question about a stream that does not exist, as that of the changes before the first node registers.
const noSuchKey = "no such key" // rueidis removes the prefix ERR

// classOfReply returns the class of an error reply.
func classOfReply(text string) store.ErrorClass {
	for _, code := range []string{"NOSCRIPT", "NOGROUP", "UNBLOCKED", noSuchKey} {
		if strings.HasPrefix(text, code) {
			return ""
		}
	}
	for _, u := range unavailableReplies {
		if strings.HasPrefix(text, u.code) {
			return u.class
		}
	}
	for _, code := range []string{"MOVED", "ASK", "CROSSSLOT"} {
		if strings.HasPrefix(text, code) {
			return store.ErrorCluster
		}
	}
	return store.ErrorReply
}
