package redisstore

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/store"
)

// encodeNode encodes what a node declares. What the store decides (epoch, revision, version, drain, admission) is in other fields of the
// hash.
func encodeNode(n *core.Node) (string, error) {
	text, err := json.Marshal(&n.Declaration)
	if err != nil {
		return "", err
	}
	return packBody(text, bodyHead{Tenant: string(n.Tenant), Secret: n.SecretHash})
}

// nodeFields is what the store decides about a node, as scripts return it.
type nodeFields struct{ epoch, rev, ver, drained, disconnected, admission string }

// fieldCount is how many parts of a reply nodeFields takes; the body of the node follows them, if the reply contains it.
const fieldCount = 6

func fieldsOf(r reply) nodeFields {
	return nodeFields{epoch: r.text(0), rev: r.text(1), ver: r.text(2), drained: r.text(3), disconnected: r.text(4), admission: r.text(5)}
}

// apply sets the fields in a node.
func (f nodeFields) apply(n *core.Node) error {
	epoch, err := strconv.ParseInt(f.epoch, 10, 64)
	rev, errRev := strconv.ParseInt(f.rev, 10, 64)
	ver, errVer := strconv.ParseInt(f.ver, 10, 64)
	n.Epoch, n.Revision, n.Version = core.Epoch(epoch), core.Revision(rev), core.Version(ver)
	n.Drained, n.Admission = f.drained == "1", decodeAdmission(f.admission)
	switch disconnected := storedNumber(f.disconnected); disconnected {
	case 0:
		n.Disconnected, n.SilentSince = false, 0
	case 1:
		n.Disconnected, n.SilentSince = true, 0
	default:
		n.Disconnected, n.SilentSince = true, disconnected
	}
	if err != nil || errRev != nil || errVer != nil {
		return errMalformed
	}
	return nil
}

// storedNumber returns a stored number that is not negative and has no fraction; 0 for any other text, as read_number of the scripts does.
func storedNumber(text string) int64 {
	n, err := strconv.ParseUint(text, 10, 63)
	if err != nil || len(text) > maxDigits {
		return 0
	}
	return int64(n)
}

func decodeNode(id core.NodeID, f nodeFields, body string) (*core.Node, error) {
	text, err := unpackBody(body)
	if err != nil {
		return nil, fmt.Errorf("node %s: %w: %w", id, errMalformed, err)
	}
	n := &core.Node{ID: id}
	if json.Unmarshal(text, &n.Declaration) != nil || n.Health == 0 {
		return nil, fmt.Errorf("node %s: %w", id, errMalformed)
	}
	if err := f.apply(n); err != nil {
		return nil, fmt.Errorf("node %s: %w", id, err)
	}
	return n, nil
}

// encodeLoad encodes a load as three numbers, empty where one is unknown.
func encodeLoad(l core.Load) string {
	part := func(v float64) string {
		if v < 0 {
			return ""
		}
		return strconv.FormatFloat(v, 'g', 4, 64)
	}
	return part(l.CPU) + " " + part(l.GPU) + " " + part(l.Memory)
}

func decodeLoad(text string) core.Load {
	parts := append(strings.Split(text, " "), "", "", "")
	part := func(i int) float64 {
		v, err := strconv.ParseFloat(parts[i], 64)
		if err != nil {
			return -1
		}
		return v
	}
	return core.Load{CPU: part(0), GPU: part(1), Memory: part(2)}
}

// encodeDigest encodes a digest, without the name of the node and its age: epoch@version|in flight|slots|load.
func encodeDigest(d *store.NodeDigest) string {
	text := strconv.AppendInt(nil, int64(d.Epoch), 10)
	text = strconv.AppendInt(append(text, '@'), int64(d.Version), 10)
	text = strconv.AppendInt(append(text, '|'), int64(d.InFlight), 10)
	text = strconv.AppendInt(append(text, '|'), int64(d.Slots), 10)
	return string(append(text, '|')) + encodeLoad(d.Load)
}

// decodeDigest decodes a digest. One that is missing or cannot be read has the epoch 0, so that the node itself is read.
func decodeDigest(seen store.LastSeen, text string) store.NodeDigest {
	d := store.NodeDigest{LastSeen: seen, Load: core.UnknownLoad}
	parts := strings.SplitN(text, "|", 4)
	if len(parts) != 4 {
		return d
	}
	epoch, version, _ := strings.Cut(parts[0], "@")
	e, err := strconv.ParseInt(epoch, 10, 64)
	v, err2 := strconv.ParseInt(version, 10, 64)
	if err != nil || err2 != nil {
		return d
	}
	d.Epoch, d.Version, d.Load = core.Epoch(e), core.Version(v), decodeLoad(parts[3])
	d.InFlight, _ = strconv.Atoi(parts[1])
	d.Slots, _ = strconv.Atoi(parts[2])
	return d
}

// decodeStatus decodes the reply of node.lua; nil when there is no such node.
func decodeStatus(id core.NodeID, now int64, r reply) (*store.NodeStatus, error) {
	if r.isNil(0) {
		return nil, nil
	}
	meta := r.list(0)
	n, err := decodeNode(id, fieldsOf(meta), meta.text(fieldCount))
	if err != nil {
		return nil, err
	}
	seen := meta.int(fieldCount + 2)
	return &store.NodeStatus{
		Node: n, Load: decodeLoad(meta.text(fieldCount + 1)), Age: time.Duration(now-seen) * time.Millisecond, At: time.UnixMilli(now),
		Occupancy: occupancy(r.list(1)),
	}, nil
}

// flag encodes a boolean for a script.
func flag(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

// activity encodes a node's activity for a script, except the list.
func activity(a *store.Activity) (lists, counts, current string) {
	return flag(a.Lists), flag(a.Counts), strconv.Itoa(a.Current)
}

// appendActive appends the listed jobs to the arguments of a script.
func appendActive(args []string, a *store.Activity) []string {
	for _, job := range a.Active {
		args = append(args, activeName(job.Job, job.Attempt))
	}
	return args
}
