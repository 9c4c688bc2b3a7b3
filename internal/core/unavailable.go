package core

import "strings"

// UnavailableService is a service that a node has reported as unavailable, in the epoch and at the version that the node had then.
type UnavailableService struct {
	Node        NodeID
	Tenant      TenantID // of the node
	Epoch       Epoch
	NodeVersion Version
	Service     string
	Version     string // of the service; empty: all its versions
	Reason      UnavailableReason
}

// UnavailableReport is a node's report that a service it declared is not available.
type UnavailableReport struct {
	UnavailableService
	Detail  string
	Job     JobID // the job that failed because of it; empty: none
	Attempt int
}

// UnavailableReason is why a service is not available, normalised from what a node reports. The names are stable: they are in metrics,
// events and logs.
type UnavailableReason string

// The reasons.
const (
	UnavailableNotInstalled    UnavailableReason = "not_installed"    // the service is not on the node
	UnavailableInstalling      UnavailableReason = "installing"       // it is being downloaded, verified, installed or loaded
	UnavailableVersionMismatch UnavailableReason = "version_mismatch" // another version is active
	UnavailableRuntimeError    UnavailableReason = "runtime_error"    // it is installed and does not work
	UnavailableStateDrift      UnavailableReason = "state_drift"      // the node has changed since its last heartbeat
	UnavailableOther           UnavailableReason = "other"            // anything else, and no reason at all
)

// UnavailableReasons lists every reason.
func UnavailableReasons() []UnavailableReason {
	return []UnavailableReason{
		UnavailableNotInstalled, UnavailableInstalling, UnavailableVersionMismatch, UnavailableRuntimeError, UnavailableStateDrift,
		UnavailableOther,
	}
}

// reasonWords are parts of what nodes report, without separators, and what they mean. The first that is found decides: a dependency
// that is missing, or an installation that failed, is an error at run time.
var reasonWords = []struct {
	reason UnavailableReason
	words  []string
}{
	{UnavailableRuntimeError, []string{"depend"}},
	{UnavailableVersionMismatch, []string{"version"}},
	{UnavailableStateDrift, []string{"drift", "switched", "stalestate", "outdatedstate"}},
	{UnavailableNotInstalled, []string{"notinstalled", "uninstalled", "notfound", "missing", "nosuch", "unknownmodel", "unknownservice",
		"doesnotexist"}},
	{UnavailableRuntimeError, []string{
		"error", "fail", "crash", "corrupt", "checksum", "hash", "exception", "panic", "oom", "outofmemory", "memory", "gpu", "cuda",
		"timeout", "timedout",
		"notrunning", "notstarted", "stopped", "runtime", "killed",
	}},
	{UnavailableInstalling, []string{"install", "download", "verify", "loading", "warmingup", "starting", "notready", "pending"}},
}

// maxReason is how much of a reason is read.
const maxReason = 128

// ClassifyReason normalises the reason for which a node reports that a service is not available. Whatever the node sends, the result is
// one of UnavailableReasons.
func ClassifyReason(text string) UnavailableReason {
	plain := make([]byte, 0, maxReason)
	for i := range min(len(text), maxReason) {
		switch c := text[i]; {
		case c >= 'A' && c <= 'Z':
			plain = append(plain, c+'a'-'A')
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9':
			plain = append(plain, c)
		}
	}
	for _, group := range reasonWords {
		for _, word := range group.words {
			if strings.Contains(string(plain), word) {
				return group.reason
			}
		}
	}
	return UnavailableOther
}
