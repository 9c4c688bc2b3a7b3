package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/yaml"

	"github.com/lingua-scheduler/lingua/internal/wirespec"
	"github.com/lingua-scheduler/lingua/wire"
)

// describeSockets makes the AsyncAPI 3.0 description of the WebSockets from the table of messages and their types.
func describeSockets(version string) ([]byte, error) {
	d := &asyncDoc{
		AsyncAPI: "3.0.0",
		Info: infoDoc{
			Title: "Lingua Scheduler", Version: version, Description: socketsDescription(),
			License: &huma.License{Name: "Apache-2.0", URL: "https://www.apache.org/licenses/LICENSE-2.0"},
		},
		DefaultContentType: "application/json",
		Servers:            map[string]serverDoc{"scheduler": schedulerDoc},
		Channels:           make(map[string]*channelDoc),
		Operations:         make(map[string]*operationDoc),
	}
	registry := huma.NewMapRegistry(schemaPrefix, huma.DefaultSchemaNamer)
	for _, f := range wirespec.Frames() {
		if err := d.add(f, textMessage(registry, f)); err != nil {
			return nil, err
		}
	}
	for _, b := range binaryFrames {
		if err := d.add(wirespec.FrameInfo{Side: b.side}, binaryMessage(registry, &b)); err != nil {
			return nil, err
		}
	}
	d.Components.Schemas = registry.Map()
	for _, s := range d.Components.Schemas {
		allowFurtherFields(s)
		convertSchema(s)
	}
	body, err := json.Marshal(d)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = yaml.Convert(&out, bytes.NewReader(body))
	return out.Bytes(), err
}

// schemaPrefix is where both descriptions have their schemas.
const schemaPrefix = "#/components/schemas/"

// The parts of an AsyncAPI document that ours has, in the order of the document.
type (
	asyncDoc struct {
		AsyncAPI           string                   `json:"asyncapi"`
		Info               infoDoc                  `json:"info"`
		DefaultContentType string                   `json:"defaultContentType"`
		Servers            map[string]serverDoc     `json:"servers"`
		Channels           map[string]*channelDoc   `json:"channels"`
		Operations         map[string]*operationDoc `json:"operations"`
		Components         struct {
			Schemas map[string]*huma.Schema `json:"schemas"`
		} `json:"components"`
	}
	infoDoc struct {
		Title       string        `json:"title"`
		Version     string        `json:"version"`
		Description string        `json:"description"`
		License     *huma.License `json:"license"`
	}
	serverDoc struct {
		Host        string                 `json:"host"`
		Protocol    string                 `json:"protocol"`
		Description string                 `json:"description"`
		Variables   map[string]variableDoc `json:"variables"`
	}
	variableDoc struct {
		Default     string `json:"default"`
		Description string `json:"description"`
	}
	channelDoc struct {
		Address     string                 `json:"address"`
		Summary     string                 `json:"summary"`
		Description string                 `json:"description"`
		Bindings    map[string]bindingDoc  `json:"bindings"`
		Messages    map[string]*messageDoc `json:"messages"`
	}
	bindingDoc struct {
		Method  string       `json:"method"`
		Headers *huma.Schema `json:"headers"`
		Version string       `json:"bindingVersion"`
	}
	messageDoc struct {
		Name        string       `json:"name"`
		Summary     string       `json:"summary"`
		Description string       `json:"description,omitempty"`
		ContentType string       `json:"contentType,omitempty"`
		Headers     *huma.Schema `json:"headers,omitempty"`
		Payload     *huma.Schema `json:"payload"`
	}
	operationDoc struct {
		Action   string         `json:"action"`
		Channel  referenceDoc   `json:"channel"`
		Summary  string         `json:"summary"`
		Messages []referenceDoc `json:"messages"`
	}
	referenceDoc struct {
		Ref string `json:"$ref"`
	}
)

var schedulerDoc = serverDoc{
	Host: "{address}", Protocol: "ws", Description: "A scheduler. Behind a proxy that terminates TLS, the protocol is wss.",
	Variables: map[string]variableDoc{"address": {Default: "127.0.0.1:5010", Description: "Host and port, as configured."}},
}

// channelDocs are the descriptions of the channels.
var channelDocs = map[string]struct{ summary, description, token string }{
	"node": {
		summary: "The connection of a node: it receives its jobs here.",
		description: "The first message is `node_register`; no other is accepted before its answer. A second connection " +
			"with the same `node_id` replaces the first.",
		token: "of the node",
	},
	"session": {
		summary: "The connection of a session: a conversation between two languages.",
		description: "The first message is `session_start`, or `session_resume` after a connection was lost. Every utterance ends " +
			"with exactly one `result`, or one `error` that names it.",
		token: "of the session, from POST /v1/sessions",
	},
}

// socketOperations are the operations of the scheduler with the messages of each side. The scheduler is the application that the
// document describes, so "send" and "receive" are from its point of view.
var socketOperations = map[wirespec.Side]struct{ id, action, summary string }{
	wirespec.FromNode:   {"fromNode", "receive", "Messages of nodes to the scheduler."},
	wirespec.ToNode:     {"toNode", "send", "Messages of the scheduler to nodes."},
	wirespec.FromClient: {"fromSession", "receive", "Messages of sessions to the scheduler."},
	wirespec.ToClient:   {"toSession", "send", "Messages of the scheduler to sessions."},
}

// add adds a message to its channel and to its operation.
func (d *asyncDoc) add(f wirespec.FrameInfo, m *messageDoc) error {
	op, ok := socketOperations[f.Side]
	if !ok {
		return fmt.Errorf("message %s is of side %q, which has no operation: add one", m.Name, f.Side)
	}
	name := path.Base(f.Path())
	channel := d.Channels[name]
	if channel == nil {
		about := channelDocs[name]
		channel = &channelDoc{
			Address: f.Path(), Summary: about.summary, Description: about.description,
			Bindings: map[string]bindingDoc{"ws": handshake(about.token)}, Messages: make(map[string]*messageDoc),
		}
		d.Channels[name] = channel
	}
	channel.Messages[m.Name] = m
	ref := "#/channels/" + name
	operation := d.Operations[op.id]
	if operation == nil {
		operation = &operationDoc{Action: op.action, Channel: referenceDoc{ref}, Summary: op.summary}
		d.Operations[op.id] = operation
	}
	operation.Messages = append(operation.Messages, referenceDoc{ref + "/messages/" + m.Name})
	return nil
}

// handshake describes the opening handshake of a WebSocket.
func handshake(token string) bindingDoc {
	return bindingDoc{Method: "GET", Version: "0.1.0", Headers: &huma.Schema{
		Type: huma.TypeObject,
		Properties: map[string]*huma.Schema{
			"Sec-WebSocket-Protocol": {
				Type: huma.TypeString, Pattern: `(^|,)\s*` + strings.ReplaceAll(wire.Subprotocol, ".", `\.`) + `\s*(,|$)`,
				Description: "The subprotocol, " + wire.Subprotocol +
					", or none at all. A client that cannot set Authorization, such as a browser, offers its token as a second one: " +
					wire.TokenSubprotocol + " and the token.",
				Examples: []any{wire.Subprotocol, wire.Subprotocol + ", " + wire.TokenSubprotocol + "eyJhbGciOi"},
			},
			"Authorization": {
				Type: huma.TypeString, Pattern: `^Bearer \S+$`,
				Description: "Bearer and the token " + token +
					". A scheduler without keys requires none. A token is never part of the URL.",
			},
		},
	}}
}

// textMessage describes a text message. Its type is not a field of the Go type, so it is added to the schema here.
func textMessage(registry huma.Registry, f wirespec.FrameInfo) *messageDoc {
	name := string(f.Frame.Type())
	ref := registry.Schema(reflect.TypeOf(f.Frame), true, "")
	s := registry.SchemaFromRef(ref.Ref)
	if s.Properties["type"] == nil { // both sockets may have the message
		s.Properties["type"] = &huma.Schema{
			Type: huma.TypeString, Description: "The type of the message.", Extensions: map[string]any{"const": name},
		}
		s.Required = append([]string{"type"}, s.Required...)
	}
	return &messageDoc{Name: name, Summary: f.About, Payload: ref}
}

// binaryFrame describes a kind of binary message. Without a kind it has no header.
type binaryFrame struct {
	side              wirespec.Side
	name, kind, about string
}

var binaryFrames = []binaryFrame{
	{wirespec.ToNode, "audio", wire.KindAudio, "Audio of a job that was assigned without a URL for it; with opus, a frame is one packet."},
	{wirespec.FromNode, "tts", wire.KindTTS, "The spoken result of a job, after a job_result that announces it."},
	{wirespec.FromClient, "audio", "", "Audio of the current utterance; the first frame begins one."},
	{wirespec.ToClient, "tts", wire.KindTTS, "The spoken result of an utterance, after a result that announces it."},
}

// binaryMessage describes a binary message.
func binaryMessage(registry huma.Registry, b *binaryFrame) *messageDoc {
	m := &messageDoc{
		Name: b.name, Summary: b.about, ContentType: "application/octet-stream",
		Payload: &huma.Schema{Type: huma.TypeString, Format: "binary"},
	}
	if b.kind == "" {
		m.Description = "A binary frame of audio in the format of `session_start`, preceded by its number if that requested numbered " +
			"framing. It is numbered together with `audio_chunk`, from 1."
		m.Payload.Description = "The audio."
		return m
	}
	m.Description = fmt.Sprintf("A binary frame: the header's length in four bytes, big-endian; the header, a JSON object; and up to %d "+
		"bytes of audio. "+
		"Chunks count from 0; the last one is marked, and may be empty.", wire.MaxChunk)
	m.Headers = &huma.Schema{Type: huma.TypeObject, AllOf: []*huma.Schema{
		registry.Schema(reflect.TypeFor[wire.BinaryHeader](), true, ""),
		{Properties: map[string]*huma.Schema{"kind": {Extensions: map[string]any{"const": b.kind}}}},
	}}
	m.Payload.Description = "The rest of the frame, after its header."
	return m
}

// convertSchema converts a schema of OpenAPI 3.1 to the older JSON Schema of AsyncAPI, in which everything beside a $ref is ignored.
// A required list is not nullable: null is for fields that may be absent.
func convertSchema(s *huma.Schema) {
	for _, p := range s.Properties {
		if p.Ref != "" && p.Description != "" {
			p.AllOf, p.Ref = []*huma.Schema{{Ref: p.Ref}}, ""
		}
	}
	for _, name := range s.Required {
		if p := s.Properties[name]; p.Type == huma.TypeArray {
			p.Nullable = false
		}
	}
}

// socketsDescription is the description of what both WebSockets have in common.
func socketsDescription() string {
	var b strings.Builder
	//nolint:lll // the text keeps its lines
	fmt.Fprintf(&b, `The WebSockets of the scheduler: one for nodes, which receive jobs, and one for sessions, which send audio and receive results.
docs/sockets.md describes what both have in common, docs/node-protocol.md and docs/session-protocol.md the rest, with transcripts;
docs/codes.md lists every code.

The application of this document is the scheduler: it receives what nodes and sessions send, and sends what they receive.

Both use the subprotocol %s. Text frames are JSON objects with a %s. Unknown fields are ignored, but not under options; an unknown
type is answered with an %s that is not fatal. No message is larger than %d bytes. The scheduler sends pings; the connection of a
peer that reads too slowly is closed.

Every close except a normal one is preceded by an %[3]s with the code in the second column. The close code tells whether to
reconnect: 44xx, 1002 and 1007, not without a change; any other but 1000, with a jittered backoff.

| close | error | cause | what to do |
|---|---|---|---|
`, "`"+wire.Subprotocol+"`", "`type`", "`error`", wire.MaxFrame)
	for _, c := range wirespec.Closes() {
		fmt.Fprintf(&b, "| %d | %s | %s | %s |\n", c.Code, joinCodes(c.Errors), c.Cause, c.Action)
	}
	return b.String()
}

// joinCodes lists error codes.
func joinCodes(codes []wire.Code) string {
	names := make([]string, len(codes))
	for i, code := range codes {
		names[i] = "`" + string(code) + "`"
	}
	return strings.Join(names, ", ")
}
