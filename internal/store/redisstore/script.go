package redisstore

import (
	"crypto/sha1" //nolint:gosec // it is the name by which Redis knows a script
	"embed"
	"encoding/hex"
	"strings"
)

//go:embed scripts/*.lua
var sources embed.FS

// script is a piece of Lua that Redis runs in one go.
type script struct{ name, text, sha string }

var (
	scriptReserve   = load("reserve")
	scriptCommit    = load("commit")
	scriptPark      = load("park")
	scriptRevoke    = load("revoke")
	scriptLease     = load("lease")
	scriptOrphans   = load("orphans")
	scriptProbe     = load("probe")
	scriptNode      = load("node")
	scriptRegister  = load("register")
	scriptHeartbeat = load("heartbeat")
	scriptDrain     = load("drain")
	scriptConnect   = load("connect")
	scriptRemove    = load("remove")
	scriptMark      = load("mark")
	scriptMarked    = load("marked")
	scriptCreate    = load("create")
	scriptReplace   = load("replace")
	scriptAppend    = load("append")
	scriptAllow     = load("allow")
	scriptLock      = load("lock")
	scriptUnlock    = load("unlock")
	scriptSeen      = load("seen")
	scriptSightings = load("sightings")
	scriptLife      = load("life")
	scriptSave      = load("save")
	scriptPost      = load("post")
	scriptUnsettled = load("unsettled")
	scriptSettle    = load("settle")
	scriptCondemn   = load("condemn")
	scriptAnnounce  = load("announce")
	scriptInstance  = load("instance")
	scriptEstate    = load("estate")
	scriptBury      = load("bury")
	scriptDiscard   = load("discard")
	scriptClaim     = load("claim")
	scriptReplay    = load("replay")
)

// load reads a script from what was embedded, with what scripts share before it unless it stands alone.
func load(name string) script {
	whole := source(name)
	if strings.HasPrefix(whole, "-- with letters") {
		whole = source("letters") + "\n" + whole
	}
	if !strings.HasPrefix(whole, "-- alone") {
		whole = source("lib") + "\n" + whole
	}
	sum := sha1.Sum([]byte(whole)) //nolint:gosec // as above
	return script{name: name, text: whole, sha: hex.EncodeToString(sum[:])}
}

func source(name string) string {
	text, err := sources.ReadFile("scripts/" + name + ".lua")
	if err != nil {
		panic(err) // it is embedded: whoever renamed it sees this at once
	}
	return string(text)
}
