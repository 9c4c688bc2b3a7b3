package server

import (
	"context"
	"net/http"
	"net/url"

	"github.com/lingua-scheduler/lingua/internal/auth"
	"github.com/lingua-scheduler/lingua/wire"
)

// What people said is shown to nobody by accident. A tenant's own programs read the results of their jobs, and so do programs with the key
// of an operator. People do not: what a page shows, others see on the same screen. They have to ask for it, and the audit log has who did.

// textChoice is whether a request wants to have what was said.
type textChoice uint8

const (
	textByDefault textChoice = iota
	textAsked                // explicitly
	textWithheld             // explicitly not
)

// textParam is the parameter by which a request says so.
const textParam = "text"

// describeText describes the parameter.
func describeText(action string) param {
	return param{
		name: textParam, kind: "string",
		description: "true: with what was said, which the audit log records (" + action +
			"); it is for operators and minters with a credential. false: without. By default programs that send a key get it, and " +
			"pages do not.",
	}
}

// isPage reports whether a browser says that a page sends the request. Programs do not send this header.
func isPage(r *http.Request) bool { return r.Header.Get("Sec-Fetch-Site") != "" }

// readText reads whether a request wants to have what was said. If it does, the call has the action, and is audited whatever becomes of it.
func readText(ctx context.Context, q url.Values, action string) *wire.Error {
	c := callOf(ctx)
	switch q.Get(textParam) {
	case "":
		if q.Has(textParam) {
			return wire.Invalid(textParam, "must be true or false")
		}
	case "false":
		c.text = textWithheld
	case "true":
		c.action = action
		if !c.caller.SeesText() {
			e := wire.FieldErrorf(wire.Forbidden, textParam, "what was said is for operators and minters with a credential")
			c.fail(e, string(auth.WrongRole))
			return e
		}
		c.text = textAsked
	default:
		return wire.Invalid(textParam, "must be true or false")
	}
	return nil
}

// showsText reports whether the answer to a request may have what was said.
func showsText(ctx context.Context) bool {
	c := callOf(ctx)
	switch {
	case !c.caller.SeesText() || c.text == textWithheld:
		return false
	case c.text == textAsked || c.caller.Role != auth.Operator:
		return true
	}
	return !c.caller.IsLogin() && !c.page
}

// withholdText removes what was said from a job, unless the answer may have it. Another instance does not know how the caller of this one
// has authenticated.
func withholdText(ctx context.Context, v *wire.Job) {
	if v.Result != nil && !showsText(ctx) {
		v.Result, v.ResultWithheld = nil, true
	}
}
