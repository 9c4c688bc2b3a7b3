package auth

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
)

// MAC is the HMAC-SHA256 of the parts, one after the other.
func MAC(secret []byte, parts ...[]byte) []byte {
	mac := hmac.New(sha256.New, secret)
	for _, part := range parts {
		mac.Write(part)
	}
	return mac.Sum(nil)
}

// Signer signs tokens and URLs that this scheduler issues and later checks, with a secret that all instances share.
type Signer []byte

// Sign is the signature of a message, for use in URLs and JSON. A message must begin with its purpose, so that a signature
// is valid for nothing else.
func (s Signer) Sign(message string) string {
	return base64.RawURLEncoding.EncodeToString(MAC(s, []byte(message)))
}

// Verify reports whether a signature is that of the message, in constant time.
func (s Signer) Verify(message, signature string) bool {
	return hmac.Equal([]byte(signature), []byte(s.Sign(message)))
}
