package waiting

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
)

// waitClass is what waiting requests require of a node. Requests of one class can be served by the same nodes.
type waitClass struct {
	id           string
	requirements string // waitRequirements as JSON
	spec         core.Spec
	except       []core.NodeID // nodes that must not get the job
}

// waitRequirements is a class as the other instances read it.
type waitRequirements struct {
	Src       core.Lang     `json:"src"`
	Tgt       core.Lang     `json:"tgt"`
	TTS       bool          `json:"tts,omitempty"`
	Region    string        `json:"region,omitempty"`
	Services  []string      `json:"services,omitempty"`
	Models    []string      `json:"models,omitempty"`
	Features  []string      `json:"features,omitempty"`
	Tenant    core.TenantID `json:"tenant,omitempty"` // one that has nodes of its own
	Node      core.NodeID   `json:"node,omitempty"`   // the only one that may serve the request
	BoundPool *core.PoolID  `json:"pool,omitempty"`   // the only pool that may serve the request
	Except    []core.NodeID `json:"except,omitempty"`
}

// waitClassID is how many bytes of the hash of its requirements identify a class.
const waitClassID = 8

// newWaitClass returns the class of a job, and the pool in whose queue it waits: the one to which it is bound, or none.
func newWaitClass(fl *fleet.Fleet, spec *core.Spec, except []core.NodeID) (*waitClass, core.PoolID) {
	o := &spec.Options
	r := waitRequirements{
		Src: spec.Direction.Src, Tgt: spec.Direction.Tgt, TTS: o.RequireTTS, Region: o.Region,
		Services: sorted(o.RequiredServices), Models: sorted(o.RequiredModels), Features: sorted(o.Features), Except: sorted(except),
	}
	if fl.Divided().HasNodesOf(spec.Tenant) {
		r.Tenant = spec.Tenant
	}
	r.Node = o.OnlyNode()
	pool := core.PoolID("")
	if rule := core.NewPoolRule(fl.Division(), spec); rule.Job.Bound {
		pool = rule.Job.ID
		r.BoundPool = &pool
	}
	text, err := json.Marshal(&r)
	if err != nil {
		panic(err) // it has only texts
	}
	return parseWaitClass(classIDOf(text), string(text)), pool
}

// classBasis is what the class of a job depends on beside the job.
type classBasis struct {
	division *core.Pools
	ownNodes bool // the tenant has nodes of its own
}

func newClassBasis(fl *fleet.Fleet, tenant core.TenantID) classBasis {
	return classBasis{fl.Division(), fl.Divided().HasNodesOf(tenant)}
}

func classIDOf(requirements []byte) string {
	sum := sha256.Sum256(requirements)
	return hex.EncodeToString(sum[:waitClassID])
}

// sorted returns the distinct elements of a list in order; nil if there are none.
func sorted[T ~string](list []T) []T {
	if len(list) == 0 {
		return nil
	}
	list = slices.Clone(list)
	slices.Sort(list)
	return slices.Compact(list)
}

// parseWaitClass reads a class from its requirements. It returns nil for a text that this version does not understand: then no node
// of this instance serves it.
func parseWaitClass(id, text string) *waitClass {
	var r waitRequirements
	if json.Unmarshal([]byte(text), &r) != nil {
		return nil
	}
	c := &waitClass{id: id, requirements: text, except: r.Except}
	c.spec.Direction, c.spec.Tenant = core.Direction{Src: r.Src, Tgt: r.Tgt}, r.Tenant
	c.spec.Options = core.Options{
		RequireTTS: r.TTS, RequiredServices: r.Services, RequiredModels: r.Models, Features: r.Features, Region: r.Region,
		PreferredNodeID: new(string(r.Node)), Strict: r.Node != "",
	}
	if r.BoundPool != nil {
		c.spec.Pool = core.JobPool{ID: *r.BoundPool, Bound: true}
	}
	return c
}

// ClassID identifies the class in which a job would wait that some nodes must not get.
func (q *Queue) ClassID(spec *core.Spec, except []core.NodeID) string {
	class, _ := newWaitClass(q.options.Fleet, spec, except)
	return class.id
}
