package redisstore

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// allSlots is the limit of an admission that has none.
const allSlots = "all"

// Admit implements store.Nodes.
func (s *Store) Admit(ctx context.Context, p store.AdmitParams) (*core.Node, bool, error) {
	if err := p.Validate(); err != nil {
		return nil, false, err
	}
	limit := allSlots
	if p.Admission.Limited {
		limit = strconv.Itoa(p.Admission.Slots)
	}
	_, r, err := s.client.runScript(ctx, &scriptAdmit, []string{s.keys.meta(p.Node)},
		strconv.FormatInt(p.Fence, 10), limit, string(p.Admission.Reason), strconv.Itoa(p.Admission.Times), millis(p.For))
	if err != nil {
		return nil, false, err
	}
	if r.int(0) == replyNotRegistered {
		return nil, false, store.ErrNoNode
	}
	admitted := r.int(0) == 1
	if admitted {
		s.publishChange(ctx, p.Node, changeNode) // also when nothing changed: the reply to the call that changed it may have been lost
	}
	n, err := decodeNode(p.Node, fieldsOf(r.list(1)), r.list(1).text(fieldCount))
	return n, admitted, err
}

// decodeAdmission decodes the field that admit.lua writes.
func decodeAdmission(text string) core.Admission {
	parts := strings.Split(text, " ")
	if len(parts) != 5 {
		return core.Admission{}
	}
	number := func(i int) int64 {
		n, _ := strconv.ParseInt(parts[i], 10, 64)
		return n
	}
	a := core.Admission{Reason: core.AdmissionReason(parts[1]), Since: time.UnixMilli(number(2)), Times: int(number(4))}
	if parts[0] != allSlots {
		a.Limited, a.Slots = true, int(number(0))
	}
	if ends := number(3); ends != 0 {
		a.Until = time.UnixMilli(ends)
	}
	return a
}
