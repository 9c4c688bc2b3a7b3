package core

import (
	"encoding/json"
	"reflect"

	"github.com/lingua-scheduler/lingua/wire"
)

// Options are the requirements of a job beyond its direction, as the API has them. What no code of the scheduler reads is kept and passed
// to the node as it is.
type Options wire.DispatchOptions

// Preferred returns the node to try first; empty: none.
func (o *Options) Preferred() NodeID {
	if o.PreferredNodeID == nil {
		return ""
	}
	return NodeID(*o.PreferredNodeID)
}

// OnlyNode returns the only node that may have the job; empty: any may.
func (o *Options) OnlyNode() NodeID {
	if !o.Strict {
		return ""
	}
	return o.Preferred()
}

// ForNode returns the options that the node of the job receives: without those that only the scheduler reads.
func (o Options) ForNode() wire.DispatchOptions {
	o.PreferredNodeID, o.Strict, o.MaxWaitMS = nil, false, nil
	return wire.DispatchOptions(o)
}

// IsZero reports whether no option is set.
func (o *Options) IsZero() bool { return reflect.ValueOf(o).Elem().IsZero() }

// others returns the options to which Fingerprint gives no place of their own, as JSON; empty if none is set.
func (o Options) others() string {
	o.RequireTTS, o.RequiredServices, o.RequiredModels, o.Features = false, nil, nil, nil
	o.PreferredNodeID, o.Strict, o.Region, o.PreferredRegion = nil, false, "", ""
	o.MaxWaitMS = nil // it is not part of the content of a request
	if o.IsZero() {
		return ""
	}
	text, err := json.Marshal(o)
	if err != nil {
		panic(err) // the API has read it from JSON
	}
	return string(text)
}

// storedOptions is a pointer to Options with the names that they have in a store, which are those of the fields: from before the options
// were those of the API. Instances of that version share a store with this one during an update.
var storedOptions = func() reflect.Type {
	fields := reflect.VisibleFields(reflect.TypeFor[Options]())
	for i := range fields {
		name := fields[i].Name
		if name == "PreferredNodeID" {
			name = "PreferredNode"
		}
		fields[i].Tag = reflect.StructTag(`json:"` + name + `,omitempty"`)
	}
	return reflect.PointerTo(reflect.StructOf(fields))
}()

// Stored returns o as package json encodes it for a store, and decodes it; then it must be normalised. It is for what is on the way of
// every job: to encode or decode o itself takes twice the time.
func (o *Options) Stored() any { return reflect.ValueOf(o).Convert(storedOptions).Interface() }

// Normalise makes an empty name of a node the absent one.
func (o *Options) Normalise() {
	if o.Preferred() == "" {
		o.PreferredNodeID = nil
	}
}

// MarshalJSON implements json.Marshaler, for stores.
func (o Options) MarshalJSON() ([]byte, error) { return json.Marshal(o.Stored()) }

// UnmarshalJSON implements json.Unmarshaler.
func (o *Options) UnmarshalJSON(text []byte) error {
	err := json.Unmarshal(text, o.Stored())
	o.Normalise()
	return err
}
