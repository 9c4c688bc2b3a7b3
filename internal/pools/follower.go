// Package pools keeps the division of the fleet into capability pools the same on all instances. The division is a setting in the store with
// a generation: an instance publishes the one of its configuration, and all adopt the one that is in force.
package pools

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lingua-scheduler/lingua/internal/backoff"
	"github.com/lingua-scheduler/lingua/internal/core"
	"github.com/lingua-scheduler/lingua/internal/events"
	"github.com/lingua-scheduler/lingua/internal/fleet"
	"github.com/lingua-scheduler/lingua/internal/store"
)

const (
	// settingName is the name of the setting.
	settingName = "pools"
	// pollInterval is how often the setting is read. With the time of a read and of dividing the fleet it must stay below the second within
	// which all instances adopt another division.
	pollInterval = 600 * time.Millisecond
)

// startTimeout is how long an instance that starts waits for the store.
const startTimeout = 10 * time.Second

var startBackoff = backoff.Backoff{Min: 50 * time.Millisecond, Max: time.Second}

// Options are the parts that a Follower uses.
type Options struct {
	Store  store.Settings
	Fleet  *fleet.Fleet
	Events *events.Recorder
	Log    *slog.Logger
}

// Follower keeps the fleet divided by the setting in the store.
type Follower struct {
	Options
	state atomic.Pointer[State]

	mu      sync.Mutex // serialises changes
	setting store.Setting
	file    []byte // the division of the configuration of this instance
	pending bool   // the division of the configuration is still to be published
	failing bool   // the last read failed
}

// State is what this instance knows of the division.
type State struct {
	Generation int64
	Division   *core.Pools // in force on this instance
	// FileDiffers means that another division is in force than that of the configuration of this instance.
	FileDiffers bool
	// Problem says why this instance does not follow the setting in the store; empty: it does.
	Problem string
}

// New makes a follower. Start makes it known which division is in force.
func New(o Options) *Follower {
	f := &Follower{Options: o}
	f.state.Store(&State{Division: &core.Pools{}})
	return f
}

// State returns what is in force.
func (f *Follower) State() State { return *f.state.Load() }

// Start publishes the division of the configuration and adopts the one that is in force after that. A division that was replaced before does
// not replace the current one, and neither does a configuration without pools: the files of instances that start may be older than what was
// reloaded on another one.
func (f *Follower) Start(ctx context.Context, division *core.Pools) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.file = encode(division)
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	calls := context.WithoutCancel(ctx) // the store limits the time of a call
	var setting store.Setting
	var err error
	if !startBackoff.Retry(ctx, func() error {
		setting, err = f.Store.LoadSetting(calls, settingName, store.Setting{})
		if err == nil && (setting.Generation == 0 || division.Enabled()) {
			setting, err = f.publish(calls, setting, false)
		}
		return err
	}) {
		return fmt.Errorf("the pools cannot be read: %w", err)
	}
	f.adopt(setting)
	if s := f.State(); s.FileDiffers {
		f.Log.Warn("the pools of this instance's configuration are not in force: the cluster has others, which were published later; reload the configuration of an instance to publish its pools",
			"generation", s.Generation, "pools", len(s.Division.IDs()))
	}
	return nil
}

// publish publishes the division of the configuration, and returns what is in force after that. The caller holds the lock.
func (f *Follower) publish(ctx context.Context, before store.Setting, force bool) (store.Setting, error) {
	setting, err := f.Store.PublishSetting(ctx, store.SettingParams{Name: settingName, Body: f.file, Force: force, Known: f.setting.Generation})
	if err == nil && setting.Generation != before.Generation && bytes.Equal(setting.Body, f.file) {
		f.Events.Record(store.Event{Kind: store.EventPoolsChanged, Detail: fmt.Sprintf("generation %d", setting.Generation)})
	}
	return setting, err
}

// Changes reports whether Publish would put another division in force. It fails if the store cannot be reached.
func (f *Follower) Changes(ctx context.Context, division *core.Pools) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	setting, err := f.Store.LoadSetting(ctx, settingName, f.setting)
	if err != nil {
		return false, err
	}
	if setting.Body == nil {
		setting.Body = f.setting.Body
	}
	return !bytes.Equal(setting.Body, encode(division)), nil
}

// Publish puts the division of a configuration that was loaded again in force on all instances, also if it was replaced before. If the store
// cannot be reached it is published as soon as it can.
func (f *Follower) Publish(ctx context.Context, division *core.Pools) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.file, f.pending = encode(division), true
	f.follow(ctx)
}

// Run follows the setting until the context ends.
func (f *Follower) Run(ctx context.Context) {
	for wait := pollInterval; backoff.Sleep(ctx, backoff.Jitter(wait, 0.2)); {
		f.mu.Lock()
		f.follow(ctx)
		f.mu.Unlock()
	}
}

// follow reads the setting and adopts it. The caller holds the lock.
func (f *Follower) follow(ctx context.Context) {
	setting, err := f.Store.LoadSetting(ctx, settingName, f.setting)
	switch {
	case err != nil:
	case f.pending:
		if setting, err = f.publish(ctx, setting, true); err == nil {
			f.pending = false
		}
	case setting.Generation < f.setting.Generation: // the store was emptied, or lost it in a failover
		setting, err = f.Store.RestoreSetting(ctx, settingName, f.setting)
	}
	if failing := err != nil; failing != f.failing && ctx.Err() == nil {
		f.failing = failing
		if failing {
			f.Log.Warn("the pools could not be read: the last ones stay in force", "error", err)
		} else {
			f.Log.Info("the pools are read again")
		}
	}
	if err == nil {
		f.adopt(setting)
	}
}

// adopt divides the fleet by a setting, unless it is in force. A setting that this instance does not understand changes nothing. The caller
// holds the lock.
func (f *Follower) adopt(setting store.Setting) {
	if setting.Body == nil { // it is in force
		setting = f.setting
	}
	next := State{Generation: setting.Generation, Division: f.State().Division, FileDiffers: !bytes.Equal(setting.Body, f.file)}
	if setting.Generation == f.setting.Generation && setting.Digest == f.setting.Digest {
		next.Problem = f.State().Problem
		f.state.Store(&next)
		return
	}
	f.setting = setting
	division, err := decode(setting.Body)
	if err != nil {
		next.Problem = fmt.Sprintf("this instance cannot use the pools of generation %d: %v", setting.Generation, err)
		f.Log.Error("the pools in the store cannot be used: those before stay in force on this instance, which may be too old", "generation", setting.Generation, "error", err)
	} else {
		began := time.Now()
		f.Fleet.SetPools(division)
		next.Division = division
		f.Log.Info("the fleet is divided into pools", "generation", setting.Generation, "pools", len(division.IDs()), "nodes", f.Fleet.Len(), "took", time.Since(began))
	}
	f.state.Store(&next)
}

func encode(division *core.Pools) []byte {
	body, _ := json.Marshal(division) // of plain fields: it cannot fail
	return body
}

// decode reads a division. Another instance wrote it, which may have a newer version of this program.
func decode(body []byte) (*core.Pools, error) {
	division := new(core.Pools)
	in := json.NewDecoder(bytes.NewReader(body))
	in.DisallowUnknownFields()
	if err := in.Decode(division); err != nil {
		return nil, err
	}
	if err := division.Validate(); err != nil {
		return nil, err
	}
	return division, nil
}
