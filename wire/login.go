package wire

// LoginRequest exchanges a key for a login.
type LoginRequest struct {
	Key string `json:"key" doc:"The key of an operator or a viewer."`
}

// Caller is who sends a request.
type Caller struct {
	Role      string `json:"role"`
	Key       string `json:"key,omitempty" doc:"The name of the key. It is absent without keys."`
	TenantID  string `json:"tenant_id,omitempty" doc:"The tenant of the key; absent: all tenants."`
	Login     bool   `json:"login" doc:"The caller has logged in, and sends a cookie."`
	ExpiresMS int64  `json:"expires_ms,omitempty" doc:"When the login ends, in Unix milliseconds."`
	Open      bool   `json:"open" doc:"No keys are configured: every caller is an operator, and there is no login."`
	Anonymous bool   `json:"anonymous" doc:"The request had no credential, and auth.anonymous_role gives it the role: there need not be a login."`
	CallerContext
}

// CallerContext is what a page shows to every caller.
type CallerContext struct {
	Version     string `json:"version" doc:"The version of the instance that answers."`
	Instance    string `json:"instance" doc:"The incarnation of the instance that answers."`
	MultiTenant bool   `json:"multi_tenant" doc:"There are tenants: a key or a node belongs to one."`
	Links       []Link `json:"links" doc:"The links that are configured as dashboard.links."`
}

// Link is a link of the dashboard.
type Link struct {
	Name string `json:"name"`
	URL  string `json:"url" doc:"An https or http URL."`
}

// LogoutResponse says how a login was ended.
type LogoutResponse struct {
	Ended   bool   `json:"ended" doc:"The login is not valid any more."`
	Warning string `json:"warning,omitempty"`
}
