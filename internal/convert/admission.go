package convert

import (
	"fmt"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/wire"
)

// Admission is the limit of a node's slots as the API shows it; nil if all may be granted. Its times are converted from the clock of the
// store, which was at storeTime, to that of this machine; they are left out if that is zero.
func Admission(n *core.Node, storeTime time.Time) *wire.Admission {
	a := n.Admission
	if !a.Limited {
		return nil
	}
	out := &wire.Admission{Slots: n.Slots(), Reason: string(a.Reason), Times: a.Times}
	if storeTime.IsZero() {
		return out
	}
	local := time.Now()
	out.SinceMS = local.Add(a.Since.Sub(storeTime)).UnixMilli()
	if !a.Until.IsZero() {
		out.UntilMS = local.Add(a.Until.Sub(storeTime)).UnixMilli()
	}
	return out
}

// AdmissionDetail says how the slots of a node are limited, why, and for how much longer; empty if all may be granted.
func AdmissionDetail(n *core.Node, storeTime time.Time) string {
	a := n.Admission
	if n.Slots() == max(n.MaxJobs, 0) {
		return ""
	}
	text := fmt.Sprintf("limited to %d of %d slots (%s)", n.Slots(), n.MaxJobs, a.Reason)
	if n.Ejected() {
		text = fmt.Sprintf("ejected (%s)", a.Reason)
	}
	if left := a.Remaining(storeTime); left > 0 && !storeTime.IsZero() {
		text += ", " + left.Round(time.Second).String() + " left"
	}
	return text
}
