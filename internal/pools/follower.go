// Package pools keeps the division of the fleet into capability pools the same on all instances. The division is a setting in the store
// with a generation: an instance publishes the one of its configuration, and all adopt the one that is in force.
package pools

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/journal"
	"github.com/lingua-scheduler/lingua/internal/run"
	"github.com/lingua-scheduler/lingua/internal/store"
)

const (
	// settingName is the name of the setting.
	settingName = "pools"
	// pollInterval is how often the setting is read in case that an announcement was lost, or the store has lost the setting.
	pollInterval = 5 * time.Second
	// busyInterval is how often it is read while an announcement may be late: other changes come, the store did not answer, or the
	// configuration is still to be published. With the time of a read and of dividing the fleet it must stay below the second within which
	// all instances adopt another division.
	busyInterval = 600 * time.Millisecond
	jitter       = 0.2 // so that instances do not read at the same time
)

// startTimeout is how long an instance that starts waits for the store.
const startTimeout = 10 * time.Second

var startBackoff = run.Backoff{Min: 50 * time.Millisecond, Max: time.Second}

// Options are the parts that a Follower uses.
type Options struct {
	Store  store.Values
	Fleet  *fleet.Fleet
	Events *journal.Events
	Log    *slog.Logger
}

// Follower keeps the fleet divided by the setting in the store.
type Follower struct {
	Options
	state atomic.Pointer[State]
	announcements

	mu      sync.Mutex // serialises changes
	setting Setting
	file    []byte // the division of the configuration of this instance
	pending bool   // the division of the configuration is still to be published
	failing bool   // the last read failed

	unreadable string // the version of the setting that could not be read last
}

// State is what this instance knows of the division.
type State struct {
	Generation int64       // 0: none was ever published
	Division   *core.Pools // in force on this instance
	// FileDiffers means that another division is in force than that of the configuration of this instance.
	FileDiffers bool
	// Problem says why this instance does not follow the setting in the store; empty: it does.
	Problem string
}

// New makes a follower. Start makes it known which division is in force.
func New(o Options) *Follower {
	f := &Follower{Options: o, announcements: newAnnouncements()}
	f.state.Store(&State{Division: &core.Pools{}})
	return f
}

// State returns what is in force.
func (f *Follower) State() State { return *f.state.Load() }

// Start publishes the division of the configuration and adopts the one that is in force after that. A division that was replaced before
// does not replace the current one, and a configuration without pools is never published: the files of instances that start may be older
// than what was reloaded on another one. If the division in force cannot be used, it fails: without it, jobs of bound tenants would run
// anywhere.
func (f *Follower) Start(ctx context.Context, division *core.Pools) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.file = encode(division)
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	calls := context.WithoutCancel(ctx) // the store limits the time of a call
	var setting Setting
	var err error
	if !startBackoff.Retry(ctx, func() error {
		setting, err = f.readFirst(calls, division.Enabled())
		return err
	}) {
		return fmt.Errorf("the pools cannot be read: %w", err)
	}
	if err := f.adopt(setting); err != nil {
		return fmt.Errorf("%w\nThe cluster is divided by them, so that this instance must not run without them. "+
			"If a newer version has published them, start that version; otherwise let an instance that runs publish others: lingua "+
			"config reload --publish-pools", err)
	}
	if s := f.State(); s.FileDiffers {
		f.Log.Warn("the pools of this instance's configuration are not in force: the cluster has others, which were published later; "+
			"bring the file up to date, or publish its pools: lingua config reload --publish-pools",
			"generation", s.Generation, "pools", len(s.Division.IDs()))
	}
	return nil
}

// load reads the setting, without its body and its digests if it is the known one. The caller holds the lock.
func (f *Follower) load(ctx context.Context, known Setting) (Setting, error) {
	stored, err := store.ReadValue(ctx, f.Store, store.ValueQuery{Key: settingKey, Known: known.version})
	if err != nil {
		return Setting{}, err
	}
	if stored.Parts == nil && stored.Version != "" {
		return Setting{Generation: known.Generation, Digest: known.Digest, version: known.version}, nil
	}
	setting, readable := parseSetting(stored)
	if !readable && f.unreadable != stored.Version {
		f.unreadable = stored.Version
		f.Log.Warn("the pools in the store cannot be read; those of an instance that knows them replace them", "setting", settingName)
	}
	return setting, nil
}

// readFirst reads the setting, and publishes the division of the configuration if it has pools. A setting that this instance cannot use is
// not replaced.
func (f *Follower) readFirst(ctx context.Context, hasPools bool) (Setting, error) {
	setting, err := f.load(ctx, Setting{})
	switch {
	case err != nil:
		return setting, err
	case setting.Generation > 0 && !isUsable(setting.Body): // the caller fails to adopt it
	case hasPools:
		return f.publish(ctx, setting, false)
	case setting.Generation == 0:
		// If the store was emptied, instances that know the setting restore it now.
		_, err = f.Store.WriteValue(ctx, store.WriteValueParams{Key: settingKey, Announce: true})
	}
	return setting, err
}

// publish publishes the division of the configuration, and returns what is in force after that. The caller holds the lock.
func (f *Follower) publish(ctx context.Context, before Setting, force bool) (Setting, error) {
	setting, err := replaceSetting(ctx, f.Store, func(current *Setting) (Setting, bool) {
		return current.published(f.file, force, &f.setting)
	})
	if err == nil && setting.Generation != before.Generation && bytes.Equal(setting.Body, f.file) {
		f.recordChange(setting, "")
	}
	return setting, err
}

func (f *Follower) recordChange(s Setting, why string) {
	f.Events.Record(store.Event{Kind: store.EventPoolsChanged, Detail: fmt.Sprintf("generation %d%s", s.Generation, why)})
}

// Effect is what happens to the division of a configuration that is loaded again.
type Effect int

// The effects.
const (
	InForce   Effect = iota // it is in force already
	Published               // it replaces the one in force
	Withheld                // it is not in force and has not changed, so that it is not published
)

// Compare returns what a reload does with the division of a configuration. One that has not changed since this instance loaded it is
// published only on demand: keys and other parts of the configuration are reloaded, too, by people who do not think of pools. It fails if
// the store is needed and does not answer.
func (f *Follower) Compare(ctx context.Context, division *core.Pools, demanded bool) (Effect, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	body := encode(division)
	if bytes.Equal(body, f.file) && !demanded {
		if f.State().FileDiffers {
			return Withheld, nil
		}
		return InForce, nil
	}
	setting, err := f.load(ctx, f.setting)
	if err != nil {
		return InForce, err
	}
	if setting.Body == nil {
		setting = f.setting
	}
	if differs(setting, body) {
		return Published, nil
	}
	return InForce, nil
}

// SetFile records the division of a configuration that was loaded again, and does not publish it.
func (f *Follower) SetFile(division *core.Pools) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.file = encode(division)
	next := f.State()
	next.FileDiffers = differs(f.setting, f.file)
	f.state.Store(&next)
}

// Publish puts the division of a configuration that was loaded again in force on all instances, also if it was replaced before. If the
// store cannot be reached it is published as soon as it can.
func (f *Follower) Publish(ctx context.Context, division *core.Pools) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.file, f.pending = encode(division), true
	f.follow(ctx)
}

// Run follows the setting until the context ends.
func (f *Follower) Run(ctx context.Context) {
	for interval := pollInterval; f.wait(ctx, interval); {
		f.mu.Lock()
		f.follow(ctx)
		interval = pollInterval
		if f.pending || f.failing {
			interval = busyInterval
		}
		f.mu.Unlock()
	}
}

// follow reads the setting and adopts it. The caller holds the lock.
func (f *Follower) follow(ctx context.Context) {
	setting, err := f.load(ctx, f.setting)
	switch {
	case err != nil:
	case f.pending:
		if setting, err = f.publish(ctx, setting, true); err == nil {
			f.pending = false
		}
	case f.isLost(setting):
		setting, err = f.restore(ctx, setting)
	}
	if failing := err != nil; failing != f.failing && ctx.Err() == nil {
		f.failing = failing
		if failing {
			f.Log.Warn("the pools could not be read: the last ones stay in force", "error", err)
		} else {
			f.Log.Info("the pools are read again")
		}
	}
	if err != nil {
		return
	}
	if err := f.adopt(setting); err != nil {
		f.Log.Error("the pools in the store cannot be used: those before stay in force on this instance, which may be too old", "error",
			err)
	}
}

// isLost reports whether the store was emptied, or has lost the setting in a failover: it has an earlier one, or another of the same
// generation, which somebody published who did not know ours. The caller holds the lock.
func (f *Follower) isLost(stored Setting) bool {
	return stored.Generation < f.setting.Generation || stored.Generation == f.setting.Generation && stored.Digest != f.setting.Digest
}

// restore writes the setting that the store has lost, and returns what is in force after that. If another has its generation, ours gets the
// next one, so that the instances that have adopted the other one notice. The caller holds the lock.
func (f *Follower) restore(ctx context.Context, stored Setting) (Setting, error) {
	lost := f.setting
	if stored.Generation == lost.Generation {
		lost.Generation++
	}
	setting, err := replaceSetting(ctx, f.Store, func(current *Setting) (Setting, bool) { return current.restored(&lost) })
	if err == nil && setting.Digest == f.setting.Digest {
		f.Log.Warn("the store had lost the pools: they are restored", "generation", setting.Generation, "found", stored.Generation)
		if setting.Generation != f.setting.Generation {
			f.recordChange(setting, ", restored after the store had lost it")
		}
	}
	return setting, err
}

// adopt divides the fleet by a setting, unless it is in force. A setting that this instance does not understand is an error and leaves the
// fleet as it is. The caller holds the lock.
func (f *Follower) adopt(setting Setting) error {
	if setting.Body == nil { // it is in force
		setting = f.setting
	}
	next := State{Generation: setting.Generation, Division: f.State().Division, FileDiffers: differs(setting, f.file)}
	if setting.Generation == f.setting.Generation && setting.Digest == f.setting.Digest {
		next.Problem = f.State().Problem
		f.setting.version = setting.version
		f.state.Store(&next)
		return nil
	}
	f.setting = setting
	division, err := decode(setting.Body)
	if err != nil {
		err = fmt.Errorf("this instance cannot use the pools of generation %d: %w", setting.Generation, err)
		next.Problem = err.Error()
	} else {
		began := time.Now()
		f.Fleet.SetPools(division)
		next.Division = division
		f.Log.Info("the fleet is divided into pools", "generation", setting.Generation, "pools", len(division.IDs()), "nodes",
			f.Fleet.Len(), "took", time.Since(began))
	}
	f.state.Store(&next)
	return err
}

// differs reports whether a configuration has another division than a setting. A setting that was never published has no pools.
func differs(s Setting, file []byte) bool {
	if s.Generation == 0 {
		return !bytes.Equal(encode(&core.Pools{}), file)
	}
	return !bytes.Equal(s.Body, file)
}

func encode(division *core.Pools) []byte {
	body, _ := json.Marshal(division) // of plain fields: it cannot fail
	return body
}

// isUsable reports whether this instance can divide the fleet by a setting.
func isUsable(body []byte) bool {
	_, err := decode(body)
	return err == nil
}

var errNoDivision = errors.New("it is not one JSON object")

// decode reads a division. Another instance wrote it, which may have a newer version of this program; or somebody else.
func decode(body []byte) (*core.Pools, error) {
	var division *core.Pools
	in := json.NewDecoder(bytes.NewReader(body))
	in.DisallowUnknownFields()
	if err := in.Decode(&division); err != nil {
		return nil, err
	}
	if _, err := in.Token(); division == nil || !errors.Is(err, io.EOF) {
		return nil, errNoDivision
	}
	if err := division.Validate(); err != nil {
		return nil, err
	}
	return division, nil
}
