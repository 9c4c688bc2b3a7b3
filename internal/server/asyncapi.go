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

// AsyncAPI is the description of the two sockets, as YAML.
func (s *Server) AsyncAPI() ([]byte, error) { return describeSockets(s.Version.Version) }

// describeSockets makes the AsyncAPI 3.0 description of the sockets from the table of frames and their types.
func describeSockets(version string) ([]byte, error) {
	d := &socketsDoc{
		AsyncAPI: "3.0.0",
		Info: infoDoc{
			Title: "Lingua Scheduler", Version: version, Description: aboutSockets(),
			License: &huma.License{Name: "Apache-2.0", URL: "https://www.apache.org/licenses/LICENSE-2.0"},
		},
		DefaultContentType: "application/json",
		Servers:            map[string]serverDoc{"scheduler": theServer},
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
		open(s)
		settle(s)
	}
	body, err := json.Marshal(d)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = yaml.Convert(&out, bytes.NewReader(body))
	return out.Bytes(), err
}

const schemaPrefix = "#/components/schemas/"

// The parts of an AsyncAPI document that ours has, in the order in which a reader wants them.
type (
	socketsDoc struct {
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

var theServer = serverDoc{
	Host: "{address}", Protocol: "ws", Description: "A scheduler. Behind something that speaks TLS for it, the protocol is wss.",
	Variables: map[string]variableDoc{"address": {Default: "127.0.0.1:5010", Description: "Host and port, as configured."}},
}

// aboutChannels says of each channel what its messages do not.
var aboutChannels = map[string]struct{ summary, description, token string }{
	"node": {
		summary: "A node gets its jobs here.",
		description: "The first message is `node_register`, and nothing else is possible before its answer. A second connection " +
			"with the same `node_id` replaces the first.",
		token: "of the node",
	},
	"session": {
		summary: "A conversation between two languages.",
		description: "The first message is `session_start`, or `session_resume` after a connection was lost. Every utterance ends " +
			"with exactly one `result`, or one `error` that names it.",
		token: "of the session, from POST /v1/sessions",
	},
}

// socketOperations are what the scheduler does with the frames of each side. The scheduler is the application that the document
// is about, so it is the one who sends and receives.
var socketOperations = map[wirespec.Side]struct{ id, action, summary string }{
	wirespec.FromNode:   {"fromNode", "receive", "What nodes say to the scheduler."},
	wirespec.ToNode:     {"toNode", "send", "What the scheduler says to nodes."},
	wirespec.FromClient: {"fromSession", "receive", "What sessions say to the scheduler."},
	wirespec.ToClient:   {"toSession", "send", "What the scheduler says to sessions."},
}

// add puts a message into its channel and into the operation that it is part of.
func (d *socketsDoc) add(f wirespec.FrameInfo, m *messageDoc) error {
	what, ok := socketOperations[f.Side]
	if !ok {
		return fmt.Errorf("frame %s is of side %q, which no operation is for: add one", m.Name, f.Side)
	}
	name := path.Base(f.Path())
	channel := d.Channels[name]
	if channel == nil {
		about := aboutChannels[name]
		channel = &channelDoc{
			Address: f.Path(), Summary: about.summary, Description: about.description,
			Bindings: map[string]bindingDoc{"ws": handshake(about.token)}, Messages: make(map[string]*messageDoc),
		}
		d.Channels[name] = channel
	}
	channel.Messages[m.Name] = m
	ref := "#/channels/" + name
	operation := d.Operations[what.id]
	if operation == nil {
		operation = &operationDoc{Action: what.action, Channel: referenceDoc{ref}, Summary: what.summary}
		d.Operations[what.id] = operation
	}
	operation.Messages = append(operation.Messages, referenceDoc{ref + "/messages/" + m.Name})
	return nil
}

// handshake describes the request that opens a socket.
func handshake(token string) bindingDoc {
	return bindingDoc{Method: "GET", Version: "0.1.0", Headers: &huma.Schema{
		Type: huma.TypeObject, Required: []string{"Sec-WebSocket-Protocol"},
		Properties: map[string]*huma.Schema{
			"Sec-WebSocket-Protocol": {
				Type: huma.TypeString, Pattern: `(^|,)\s*` + strings.ReplaceAll(wire.Subprotocol, ".", `\.`) + `\s*(,|$)`,
				Description: "The subprotocol, " + wire.Subprotocol + ". Whoever cannot set Authorization, as a browser cannot, offers its token as a second one: " +
					wire.TokenSubprotocol + " and the token.",
				Examples: []any{wire.Subprotocol, wire.Subprotocol + ", " + wire.TokenSubprotocol + "eyJhbGciOi"},
			},
			"Authorization": {
				Type: huma.TypeString, Pattern: `^Bearer \S+$`,
				Description: "Bearer and the token " + token + ". A scheduler without keys asks for none. A token is never part of the address.",
			},
		},
	}}
}

// textMessage describes a text frame. Its type is not a field of the Go type, so it is added to the schema here.
func textMessage(registry huma.Registry, f wirespec.FrameInfo) *messageDoc {
	name := string(f.Frame.Type())
	ref := registry.Schema(reflect.TypeOf(f.Frame), true, "")
	s := registry.SchemaFromRef(ref.Ref)
	if s.Properties["type"] == nil { // two sockets may have it
		s.Properties["type"] = &huma.Schema{
			Type: huma.TypeString, Description: "Which message this is.", Extensions: map[string]any{"const": name},
		}
		s.Required = append([]string{"type"}, s.Required...)
	}
	return &messageDoc{Name: name, Summary: f.About, Payload: ref}
}

// binaryFrame is a kind of binary frame. Without a kind it has no header.
type binaryFrame struct {
	side              wirespec.Side
	name, kind, about string
}

var binaryFrames = []binaryFrame{
	{wirespec.ToNode, "audio", wire.KindAudio, "Audio of a job that was assigned without a URL for it; of opus, a frame is one packet."},
	{wirespec.FromNode, "tts", wire.KindTTS, "The spoken result of a job, after a job_result that says so."},
	{wirespec.FromClient, "audio", "", "Audio of the open utterance; the first begins one."},
	{wirespec.ToClient, "tts", wire.KindTTS, "The spoken result of an utterance, after a result that says so."},
}

// binaryMessage describes a binary frame.
func binaryMessage(registry huma.Registry, b *binaryFrame) *messageDoc {
	m := &messageDoc{
		Name: b.name, Summary: b.about, ContentType: "application/octet-stream",
		Payload: &huma.Schema{Type: huma.TypeString, Format: "binary"},
	}
	if b.kind == "" {
		m.Description = "A binary frame of audio in the format that `session_start` gave, after its number if that asked for numbered framing. It is counted together with `audio_chunk`, from 1."
		m.Payload.Description = "The frame as it is."
		return m
	}
	m.Description = fmt.Sprintf("A binary frame: the header's length in four bytes, big-endian; the header, a JSON object; and up to %d bytes. "+
		"Chunks count from 0; the last one says so, and may be empty.", wire.MaxChunk)
	m.Headers = &huma.Schema{Type: huma.TypeObject, AllOf: []*huma.Schema{
		registry.Schema(reflect.TypeFor[wire.BinaryHeader](), true, ""),
		{Properties: map[string]*huma.Schema{"kind": {Extensions: map[string]any{"const": b.kind}}}},
	}}
	m.Payload.Description = "What is left of the frame after its header."
	return m
}

// settle makes of a schema that OpenAPI would take one that AsyncAPI, whose schemas are of an older kind, reads the same
// way: beside a $ref everything is ignored there. And a list that must be there is one: null is for what may be absent.
func settle(s *huma.Schema) {
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

// closeCodes says what each close code is for.
var closeCodes = []struct {
	code wire.CloseCode
	why  string
}{
	{wire.CloseNormal, "the session has ended"},
	{wire.CloseBadMessage, "a first message that is not one; later ones are answered with an `error` that is not fatal"},
	{wire.CloseUnauthorized, "no valid credential"},
	{wire.CloseForbidden, "the credential is not for this"},
	{wire.CloseNotFound, "the session is not known any more"},
	{wire.CloseIdle, "no first message in time; a session that sends nothing for too long"},
	{wire.CloseReplaced, "the same node or session has connected again; a newer life of the node"},
	{wire.CloseTooLarge, "a message or an utterance that is too large"},
	{wire.CloseTooFast, "too many requests"},
	{wire.CloseInternal, "something went wrong here"},
	{wire.CloseDraining, "this instance is stopping"},
	{wire.CloseSlow, "what was sent was not read in time; pings were not answered"},
	{wire.CloseOverloaded, "audio that cannot be taken now: resume after the error's retry_after_ms"},
}

// aboutSockets is what holds for both sockets.
func aboutSockets() string {
	var b strings.Builder
	fmt.Fprintf(&b, `The WebSockets of the scheduler: nodes get their jobs over one, and people speak over the other.

The application of this document is the scheduler: what it receives, a node or a session sends; what it sends, they receive.

Both sockets speak the subprotocol %s. Text frames are JSON objects with a %s. Fields that are not known are ignored; a type
that is not known is answered with an %s that is not fatal. No message is larger than %d bytes. The scheduler pings; whoever
is slow to read is closed, never waited for.

Before every close but a normal one comes an %[3]s. The close code says what to do: 44xx, do not come back without a change;
45xx, come back after a while, at a random moment.

| close | why |
|---|---|
`, "`"+wire.Subprotocol+"`", "`type`", "`error`", wire.MaxFrame)
	for _, c := range closeCodes {
		fmt.Fprintf(&b, "| %d | %s |\n", c.code, c.why)
	}
	return b.String()
}
