package auth_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lingua-scheduler/lingua/internal/auth"
)

// login logs in with a key that must be accepted.
func login(t *testing.T, a *auth.Authenticator, key string) string {
	t.Helper()
	l, reason := a.NewLogin(key, time.Hour)
	if reason != "" {
		t.Fatalf("the login is refused: %s", reason)
	}
	return l.Token
}

// TestLoginIsItsKey: a login has the role and the tenant of its key, for a limited time.
func TestLoginIsItsKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := auth.NewAuthenticator(keyring(t, config()), nil)
		token := login(t, a, viewerKey)
		p, reason := a.AuthenticateLogin(token)
		if reason != "" || p.Role != auth.Viewer || p.Key != "grafana" || !p.IsLogin() || p.Issuer.IsLogin() || p.TokenID == "" || time.Until(p.Expires) > time.Hour {
			t.Errorf("%+v, %s", p, reason)
		}
		if _, reason := a.Authenticate(token); reason == "" {
			t.Error("a login is accepted as a bearer token: a page could send it")
		}
		if strings.Contains(token, viewerKey) {
			t.Error("the login contains the key")
		}
		time.Sleep(time.Hour)
		if _, reason := a.AuthenticateLogin(token); reason != auth.Expired {
			t.Errorf("after its lifetime: %q", reason)
		}
	})
}

// TestLoginsThatAreRefused: only people log in, with a valid key.
func TestLoginsThatAreRefused(t *testing.T) {
	t.Parallel()
	a := auth.NewAuthenticator(keyring(t, config()), nil)
	session := mint(t, a.Keyring(), authenticate(t, a.Keyring(), operatorKey), "", time.Minute)
	for key, want := range map[string]auth.Reason{
		"": auth.Missing, "nobody-has-this-key": auth.Unknown, minterKey: auth.WrongRole, metricsKey: auth.WrongRole, gpuToken: auth.WrongRole, session: auth.WrongRole,
	} {
		if _, reason := a.NewLogin(key, time.Hour); reason != want {
			t.Errorf("a login is refused with %q, want %q", reason, want)
		}
	}
	token := login(t, a, operatorKey)
	for name, forged := range map[string]string{
		"changed": token[:len(token)-2] + "xx", "without a signature": token[:strings.LastIndex(token, ".")+1], "empty": "", "long": strings.Repeat("x", 5000), "a session": session,
		"of another process": login(t, auth.NewAuthenticator(keyring(t, auth.Config{OperatorKeys: []string{operatorKey}}), nil), operatorKey),
	} {
		if _, reason := a.AuthenticateLogin(forged); reason == "" {
			t.Errorf("%s: it is accepted", name)
		}
	}
}

// TestLoginsHoldOnEveryInstance: with a shared secret, a login of one instance is valid on another, also while the secret is rotated.
func TestLoginsHoldOnEveryInstance(t *testing.T) {
	t.Parallel()
	cluster := func(secrets ...string) auth.Config {
		return auth.Config{OperatorKeys: []string{operatorKey}, ClusterSecrets: secrets}
	}
	instance := func(c auth.Config) *auth.Authenticator { return auth.NewAuthenticator(keyring(t, c), nil) }
	for name, c := range map[string]struct {
		from, to auth.Config
		want     auth.Reason
	}{
		"signers":          {config(), config(), ""},
		"cluster secret":   {cluster(secret), cluster(secret), ""},
		"rotated":          {cluster(secret, nextSecret), cluster(nextSecret, secret), ""},
		"another":          {cluster(secret), cluster(nextSecret), auth.Unknown},
		"no shared secret": {auth.Config{OperatorKeys: []string{operatorKey}}, auth.Config{OperatorKeys: []string{operatorKey}}, auth.Unknown},
	} {
		from, to := instance(c.from), instance(c.to)
		if _, reason := to.AuthenticateLogin(login(t, from, operatorKey)); reason != c.want {
			t.Errorf("%s: %q, want %q", name, reason, c.want)
		}
		if shares := from.Keyring().SharesLogins(); shares != (name != "no shared secret") {
			t.Errorf("%s: shares logins: %v", name, shares)
		}
	}
}

// TestLoginEndsWithItsKey: a login is not valid any more when its key is removed, loses the secret, or is revoked.
func TestLoginEndsWithItsKey(t *testing.T) {
	t.Parallel()
	before := auth.Config{OperatorKeys: []string{operatorKey}, Keys: []auth.KeyConfig{{Name: "night", Role: auth.Viewer, Secrets: []string{viewerKey, "another-viewer-key-0123"}}}}
	a := auth.NewAuthenticator(keyring(t, before), nil)
	token, other := login(t, a, viewerKey), login(t, a, "another-viewer-key-0123")
	after := before
	after.Keys = []auth.KeyConfig{{Name: "night", Role: auth.Viewer, Secrets: []string{"another-viewer-key-0123"}}}
	a.Replace(keyring(t, after))
	if _, reason := a.AuthenticateLogin(token); reason != auth.Unknown {
		t.Errorf("with a secret that was removed: %q", reason)
	}
	if _, reason := a.AuthenticateLogin(other); reason != "" {
		t.Errorf("with the other secret: %q", reason)
	}
	after.Keys = nil
	a.Replace(keyring(t, after))
	if _, reason := a.AuthenticateLogin(other); reason != auth.Unknown {
		t.Errorf("with a key that was removed: %q", reason)
	}
}
