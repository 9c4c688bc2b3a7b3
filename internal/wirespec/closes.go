package wirespec

import "github.com/lingua-scheduler/lingua/wire"

// CloseInfo is one row of the table of close codes.
type CloseInfo struct {
	Code wire.CloseCode
	// Errors are the codes of the error frame that precedes the close. Without one there is no error frame, or the code is not
	// sent.
	Errors []wire.Code
	Cause  string // when the connection is closed with the code
	Action string // what the peer should do
}

// Closes lists every close code in the order of the numbers. The AsyncAPI description and docs/codes.md have the same table.
func Closes() []CloseInfo {
	return []CloseInfo{
		{
			wire.CloseNormal, nil, "the session has ended, after `session_ended`; or the peer has closed with it",
			"nothing",
		},
		{
			wire.CloseProtocolError, []wire.Code{wire.InvalidRequest}, "a frame that RFC 6455 does not allow",
			"correct the program",
		},
		{
			wire.CloseInvalidPayload, []wire.Code{wire.InvalidRequest}, "a text frame, or the reason of a close, that is not UTF-8",
			"correct the program",
		},
		{
			wire.CloseBadMessage, []wire.Code{wire.InvalidRequest},
			"an invalid first message; a later one is answered with an `error` that is not fatal",
			"correct the message, see the error's `field` and `detail`",
		},
		{
			wire.CloseUnauthorized, []wire.Code{wire.Unauthorized},
			"no valid credential, from a browser; others get HTTP 401 before the upgrade. Or the token of a connected session has " +
				"expired, or the credential was revoked",
			"use another credential, or mint another session token",
		},
		{
			wire.CloseForbidden, []wire.Code{wire.Forbidden},
			"a credential for another node, session or tenant; a wrong `resume_token`; a `session_id` that another session uses",
			"use the right credential, or another name",
		},
		{
			wire.CloseNotFound, []wire.Code{wire.NotFound}, "`session_resume` of a session that is not known, or not any more",
			"start another session",
		},
		{
			wire.CloseIdle, []wire.Code{wire.DeadlineExceeded},
			"no first message within `first_message_ms`, or no message of a session within `idle_ms`",
			"send the first message at once, and `keepalive` while nobody speaks; an idle session can be resumed, or another one " +
				"started after 4404",
		},
		{
			wire.CloseReplaced, []wire.Code{wire.StaleEpoch},
			"the same node or session has connected again, or the node has registered again",
			"nothing, if the newer connection is yours; otherwise two programs use the same name",
		},
		{
			wire.CloseEnded, []wire.Code{wire.SessionEndedCode}, "the session was ended with `DELETE /v1/sessions/{id}`",
			"nothing; mint another session token and start another session, if there is to be one",
		},
		{
			wire.CloseTooLarge, []wire.Code{wire.PayloadTooLarge}, "a message, or the audio of an utterance, that is too large",
			"send smaller messages; end utterances earlier",
		},
		{
			wire.CloseTooFast, []wire.Code{wire.RateLimited},
			"`session_start` while the tenant has as many sessions as its `max_sessions`; too many connections of one address get HTTP " +
				"429 before the upgrade",
			"end a session, or connect again after `retry_after_ms`",
		},
		{
			wire.CloseInternal, []wire.Code{wire.Internal}, "an error of the scheduler, which is in its log",
			"connect again, with backoff",
		},
		{
			wire.CloseDraining, []wire.Code{wire.Internal, wire.AllCandidatesFullOrFailed, wire.SchedulerDependencyDown},
			"the instance is stopping, or the store did not answer the first message",
			"connect to another instance, or to the same one after `retry_after_ms`",
		},
		{
			wire.CloseSlow, []wire.Code{wire.RateLimited, wire.DeadlineExceeded},
			"the peer did not read what was sent, or did not answer pings",
			"connect again, and resume; read faster",
		},
		{
			wire.CloseNameInUse, []wire.Code{wire.NameInUse},
			"`node_register` under the name of a node that is present, without its `resume_token`, where secrets are required " +
				"(`auth.require_node_secret`, the default with keys); elsewhere it replaces that connection",
			"connect again after `retry_after_ms`: the name is free when that node has been gone for a while; otherwise two programs " +
				"use the same name",
		},
		{
			wire.CloseOverloaded, []wire.Code{wire.RateLimited}, "audio that cannot be accepted now; the refused frame is not counted",
			"resume after `retry_after_ms`",
		},
	}
}
