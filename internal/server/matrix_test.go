package server_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/lingua-scheduler/lingua/internal/auth"
	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/wire"
)

// outcome is what a credential gets from a route.
type outcome string

const (
	allowed      outcome = "allowed"
	unauthorized outcome = "401"
	forbidden    outcome = "403"
	hidden       outcome = "404"
)

// matrixKeys are the secrets of the keys of the matrix, by name. The configuration has their hashes.
var matrixKeys = map[string]config.Key{
	"operator":      {Role: "operator"},
	"viewer":        {Role: "viewer"},
	"viewer-acme":   {Role: "viewer", Tenant: "acme"},
	"viewer-beta":   {Role: "viewer", Tenant: "beta"},
	"metrics":       {Role: "metrics"},
	"minter-acme":   {Role: "minter", Tenant: "acme", MaxTTL: 3600},
	"minter-beta":   {Role: "minter", Tenant: "beta", MaxTTL: 3600},
	"node-shared":   {Role: "node", Nodes: "gpu-*"},
	"node-acme":     {Role: "node", Tenant: "acme", Nodes: "acme-*"},
	"node-beta":     {Role: "node", Tenant: "beta", Nodes: "beta-*"},
	"expired":       {Role: "operator", NotAfter: time.Unix(1, 0)},
	"not-yet-valid": {Role: "operator", NotBefore: time.Now().Add(24 * time.Hour)},
	"revoked":       {Role: "operator"},
}

// invalidCredentials are credentials of the matrix that nobody may use for anything.
var invalidCredentials = []string{
	"", "unknown", "expired", "not-yet-valid", "revoked", "session-expired", "session-not-yet-valid", "session-revoked", "session-of-revoked",
}

// matrixSecret signs the session tokens of the matrix.
const matrixSecret = "a-secret-of-more-than-32-characters-for-tokens"

// keySecret is the secret of a key of the matrix.
func keySecret(name string) string { return "secret-of-the-key-" + name }

// hashOf is the hash of a secret, as in a configuration.
func hashOf(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

func startMatrix(t *testing.T, changes ...func(*config.Config)) *testScheduler {
	t.Helper()
	secret := t.TempDir() + "/signer"
	if err := os.WriteFile(secret, []byte(matrixSecret), 0o600); err != nil {
		t.Fatal(err)
	}
	return startScheduler(t, append([]func(*config.Config){func(c *config.Config) {
		for name, k := range matrixKeys {
			k.Name, k.SHA256 = name, []string{hashOf(keySecret(name))}
			c.Auth.Keys = append(c.Auth.Keys, k)
		}
		c.Auth.Signers = []config.Signer{{KID: "1", Use: "sign", SecretFile: secret}}
	}}, changes...)...)
}

// matrixObjects are objects of both tenants, and a shared node.
type matrixObjects struct {
	ts     *testScheduler
	nodes  map[string]*callbackNode // by tenant; the empty one is shared
	jobs   map[string]delivery      // by tenant
	tokens map[string]string        // credentials by name
}

// newMatrixObjects registers a node for each tenant and a shared one, and gives each tenant's node a job.
func newMatrixObjects(ts *testScheduler) *matrixObjects {
	ts.t.Helper()
	m := &matrixObjects{ts: ts, nodes: make(map[string]*callbackNode), jobs: make(map[string]delivery), tokens: map[string]string{"": "", "unknown": "an-unknown-credential"}}
	for name := range matrixKeys {
		m.tokens[name] = keySecret(name)
	}
	m.nodes["acme"] = registerKeyed(ts, "acme-1", keySecret("node-acme"))
	m.nodes["beta"] = registerKeyed(ts, "beta-1", keySecret("node-beta"))
	for _, tenant := range []string{"acme", "beta"} {
		var placed wire.DispatchResponse
		ts.requestAs(keySecret("minter-"+tenant), "POST", "/v1/dispatch/f2f", dispatchBody(object{"request_id": "of-" + tenant})).decode(&placed)
		m.jobs[tenant], _ = ts.nextDelivery()
		var minted wire.SessionTokenResponse
		ts.requestAs(keySecret("minter-"+tenant), "POST", "/v1/sessions", object{"session_id": "room-" + tenant}).decode(&minted)
		m.tokens["session-"+tenant] = minted.Token
	}
	m.nodes[""] = registerKeyed(ts, "gpu-1", keySecret("node-shared"))
	m.addInvalidTokens()
	return m
}

// signToken signs a token of a minter of acme with the secret of the matrix.
func signToken(t testing.TB, issued, expires time.Time) string {
	t.Helper()
	token := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{
		"iss": "minter-acme", "sub": "room-acme", "aud": "lingua.session", "tenant": "acme", "iat": issued.Unix(), "exp": expires.Unix(),
	})
	token.Header["kid"] = "1"
	text, err := token.SignedString([]byte(matrixSecret))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// addInvalidTokens adds session tokens that are not valid now, and revokes those that are to be revoked.
func (m *matrixObjects) addInvalidTokens() {
	t := m.ts.t
	t.Helper()
	ring, err := auth.NewKeyring(auth.Config{OperatorKeys: []string{operatorKey}, Signers: []auth.SignerConfig{{KID: "1", Use: auth.UseSign, Secret: matrixSecret}}})
	if err != nil {
		t.Fatal(err)
	}
	minter := &auth.Principal{Key: "minter-acme", Role: auth.Minter, Tenant: "acme"}
	if m.tokens["session-expired"], _, err = ring.MintSession(minter, "room-acme", "acme", -time.Minute, time.Time{}); err != nil {
		t.Fatal(err)
	}
	m.tokens["session-not-yet-valid"] = signToken(t, time.Now().Add(time.Hour), time.Now().Add(2*time.Hour))
	m.tokens["session-revoked"] = m.ts.mint(keySecret("minter-acme"), "room-revoked")
	m.tokens["session-of-revoked"] = m.ts.mint(keySecret("revoked"), "room-acme")
	for _, what := range []object{{"key": "revoked"}, {"session": "room-revoked", "tenant_id": "acme"}} {
		m.ts.requestAs(keySecret("operator"), "POST", "/v1/auth/revocations", what).decode(&wire.Revocation{})
	}
}

// call sends the request of a route about the objects of acme.
func (m *matrixObjects) call(route, token string) response {
	m.ts.t.Helper()
	method, path, _ := strings.Cut(route, " ")
	job, n := m.jobs["acme"], m.nodes["acme"]
	report := object{"job_id": job.JobID, "attempt_id": job.AttemptID, "node_id": n.id, "node_token": n.nodeToken}
	bodies := map[string]any{
		"POST /v1/dispatch/f2f": dispatchBody(nil), "POST /v1/dispatch/explain": dispatchBody(nil),
		"POST /v1/job/ack": report, "POST /v1/job/done": report.with(object{"status": "ok"}), "POST /v1/job/fail": report.with(object{"reason": "X"}),
		"POST /v1/node/register":            declaration(n.id, n.callback()).with(object{"node_token": n.nodeToken}),
		"POST /v1/node/heartbeat":           object{"node_id": n.id, "node_token": n.nodeToken},
		"POST /v1/node/model_not_available": object{"node_id": n.id, "node_token": n.nodeToken, "service_id": "s"},
		"POST /v1/sessions":                 object{}, "POST /v1/dlq/replay": object{"all": true}, "POST /v1/dlq/purge": object{"all": true},
		"POST /v1/auth/revocations": object{"node": "stolen-1"},
		"POST /v1/jobs/cancel":      object{"filter": object{}, "dry_run": true},
		"POST /v1/nodes/drain":      object{"filter": object{}, "dry_run": true}, "POST /v1/nodes/resume": object{"filter": object{}, "dry_run": true},
	}
	id := job.JobID
	if strings.HasPrefix(path, "/v1/nodes/") {
		id = n.id
	}
	if path == "/v1/events/stream" || path == "/v1/live" {
		path += "?seconds=0"
	}
	return m.ts.requestAs(token, method, strings.ReplaceAll(path, "{id}", id), bodies[route])
}

// outcomeOf classifies an answer. A denial is distinguished from an error of the request itself.
func outcomeOf(r response) outcome {
	switch r.status {
	case http.StatusUnauthorized:
		return unauthorized
	case http.StatusForbidden:
		return forbidden
	case http.StatusNotFound:
		return hidden
	}
	return allowed
}

// matrix says by hand what every credential gets from every route that is not public. What is not listed is 403.
var matrix = map[string]map[outcome][]string{
	"POST /v1/dispatch/f2f":             {allowed: {"operator", "minter-acme", "minter-beta"}},
	"POST /v1/dispatch/explain":         {allowed: {"operator", "viewer", "viewer-acme", "viewer-beta", "minter-acme", "minter-beta"}},
	"POST /v1/job/ack":                  {allowed: {"operator", "node-acme"}},
	"POST /v1/job/done":                 {allowed: {"operator", "node-acme"}},
	"POST /v1/job/fail":                 {allowed: {"operator", "node-acme"}},
	"POST /v1/node/register":            {allowed: {"operator", "node-acme"}},
	"POST /v1/node/heartbeat":           {allowed: {"operator", "node-acme"}},
	"POST /v1/node/model_not_available": {allowed: {"operator", "node-acme"}},
	"GET /v1/jobs":                      {allowed: {"operator", "viewer", "viewer-acme", "viewer-beta", "minter-acme", "minter-beta"}},
	"GET /v1/waiting":                   {allowed: {"operator", "viewer", "viewer-acme", "viewer-beta", "minter-acme", "minter-beta"}},
	"GET /v1/jobs/{id}":                 {allowed: {"operator", "viewer", "viewer-acme", "minter-acme"}, hidden: {"viewer-beta", "minter-beta"}},
	"GET /v1/jobs/{id}/decisions":       {allowed: {"operator", "viewer", "viewer-acme", "minter-acme"}, hidden: {"viewer-beta", "minter-beta"}},
	"POST /v1/jobs/{id}/cancel":         {allowed: {"operator", "minter-acme"}, hidden: {"minter-beta"}},
	"GET /v1/nodes":                     {allowed: {"operator", "viewer", "viewer-acme", "viewer-beta"}},
	"GET /v1/nodes/table":               {allowed: {"operator", "viewer", "viewer-acme", "viewer-beta"}},
	"GET /v1/nodes/refused":             {allowed: {"operator"}},
	"GET /v1/nodes/{id}":                {allowed: {"operator", "viewer", "viewer-acme"}, hidden: {"viewer-beta"}},
	"POST /v1/nodes/{id}/drain":         {allowed: {"operator"}},
	"GET /v1/nodes/{id}/drain_effect":   {allowed: {"operator", "viewer"}},
	"POST /v1/nodes/{id}/resume":        {allowed: {"operator"}},
	"POST /v1/nodes/{id}/probe":         {allowed: {"operator"}},
	"DELETE /v1/nodes/{id}":             {allowed: {"operator"}},
	"GET /v1/directions":                {allowed: {"operator", "viewer", "viewer-acme", "viewer-beta"}},
	"GET /v1/caller":                    {allowed: {"operator", "viewer", "viewer-acme", "viewer-beta"}},
	"POST /logout":                      {allowed: {"operator", "viewer", "viewer-acme", "viewer-beta"}},
	"GET /v1/instances":                 {allowed: {"operator", "viewer"}},
	"GET /api/v1/metrics":               {allowed: {"operator", "viewer"}},
	"GET /api/v1/series":                {allowed: {"operator", "viewer"}},
	"GET /v1/tenants":                   {allowed: {"operator", "viewer", "viewer-acme", "viewer-beta", "minter-acme", "minter-beta"}},
	"GET /v1/store":                     {allowed: {"operator", "viewer"}},
	"GET /v1/nodes/{id}/series":         {allowed: {"operator", "viewer", "viewer-acme"}, hidden: {"viewer-beta"}},
	"GET /api/v1/phase3/pools":          {allowed: {"operator", "viewer"}},
	"GET /api/v1/stats":                 {allowed: {"operator", "viewer"}},
	"GET /v1/dlq":                       {allowed: {"operator", "viewer", "viewer-acme", "viewer-beta"}},
	"POST /v1/dlq/replay":               {allowed: {"operator"}},
	"POST /v1/dlq/purge":                {allowed: {"operator"}},
	"GET /v1/events":                    {allowed: {"operator", "viewer", "viewer-acme", "viewer-beta"}},
	"GET /v1/events/stream":             {allowed: {"operator", "viewer", "viewer-acme", "viewer-beta"}},
	"GET /v1/live":                      {allowed: {"operator", "viewer", "viewer-acme", "viewer-beta"}},
	"GET /v1/audit":                     {allowed: {"operator", "viewer", "viewer-acme", "viewer-beta"}},
	"POST /v1/sessions":                 {allowed: {"operator", "minter-acme", "minter-beta"}},
	"GET /v1/sessions":                  {allowed: {"operator", "viewer", "viewer-acme", "viewer-beta", "minter-acme", "minter-beta"}},
	"DELETE /v1/sessions/{id}":          {allowed: {"operator", "minter-acme", "minter-beta"}}, // each ends one of its own tenant
	"POST /v1/auth/revocations":         {allowed: {"operator"}},
	"GET /v1/auth/revocations":          {allowed: {"operator", "viewer"}},
	"DELETE /v1/auth/revocations/{id}":  {allowed: {"operator"}},
	"POST /v1/config/reload":            {allowed: {"operator"}},
	"GET /v1/config":                    {allowed: {"operator"}},
	"POST /v1/jobs/cancel":              {allowed: {"operator"}},
	"POST /v1/nodes/drain":              {allowed: {"operator"}},
	"POST /v1/nodes/resume":             {allowed: {"operator"}},
	"GET /metrics":                      {allowed: {"operator", "viewer", "metrics"}},
	"GET /ws/node":                      {allowed: {"operator", "node-shared", "node-acme", "node-beta"}},
	"GET /ws/session":                   {allowed: {"operator", "session-acme", "session-beta"}},
}

// publicRoutes need no key: there is nothing to protect, the address itself is signed, or the body has a key.
var publicRoutes = []string{
	"GET /v1/version", "GET /healthz", "GET /readyz", "GET /openapi.yaml", "GET /asyncapi.yaml", "GET /v1/audio/{id}", "PUT /v1/audio/{id}/tts",
	"POST /login",
	"GET /dashboard", "GET /dashboard/{file...}",
}

// TestEveryRouteWithEveryCredential tries every credential on every route, about objects of the tenant acme.
func TestEveryRouteWithEveryCredential(t *testing.T) {
	t.Parallel()
	ts := startMatrix(t)
	// A reload that is allowed is answered with this error, and changes nothing.
	ts.scheduler.SetConfigSource(func() (config.Config, []string, error) { return config.Config{}, nil, errors.New("there is no file") })
	m := newMatrixObjects(ts)
	tried := 0
	routes := ts.scheduler.Server.Routes()
	slices.SortStableFunc(routes, func(a, b string) int { return strings.Index(a, "DELETE") - strings.Index(b, "DELETE") }) // they come last: the others need what they remove
	for _, route := range routes {
		if slices.Contains(publicRoutes, route) {
			continue
		}
		want, listed := matrix[route]
		if !listed {
			t.Errorf("%s is in no table: nobody says who may use it", route)
			continue
		}
		names := make([]string, 0, len(m.tokens))
		for name := range m.tokens {
			names = append(names, name)
		}
		slices.Sort(names) // a request that changes something comes after all that are refused
		slices.SortStableFunc(names, func(a, b string) int { return rank(want, a) - rank(want, b) })
		for _, name := range names {
			expected := forbidden
			switch {
			case slices.Contains(invalidCredentials, name):
				expected = unauthorized
			case slices.Contains(want[allowed], name):
				expected = allowed
			case slices.Contains(want[hidden], name):
				expected = hidden
			}
			answer := m.call(route, m.tokens[name])
			got := outcomeOf(answer)
			if got != expected {
				t.Errorf("%s with %q: %s, want %s: %.300s", route, name, got, expected, answer.body)
			}
			for tenant, other := range map[string]string{"acme": "beta", "beta": "acme"} {
				if route == "GET /v1/audit" {
					continue // it repeats the names that the tenant's own keys have asked for
				}
				if strings.HasSuffix(name, "-"+tenant) && strings.Contains(string(answer.body), other) && got != forbidden && got != hidden {
					t.Errorf("%s tells %q about another tenant: %.300s", route, name, answer.body)
				}
			}
			tried++
		}
	}
	t.Logf("%d pairs of a route and a credential", tried)
}

// rank orders credentials: those that are refused come first.
func rank(want map[outcome][]string, name string) int {
	if slices.Contains(want[allowed], name) {
		return 1
	}
	return 0
}
