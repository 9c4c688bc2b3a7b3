package main

import (
	"context"
	"fmt"
	"text/tabwriter"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/wire"
)

type configCmd struct {
	Check     configCheckCmd     `cmd:"" help:"Check a config file together with the environment, and print every error in it."`
	Reload    configReloadCmd    `cmd:"" help:"Let a running scheduler read its configuration again: keys, signers and capability pools change without a restart."`
	Reference configReferenceCmd `cmd:"" help:"Print a config file with every key, its default and its meaning."`
}

type configCheckCmd struct {
	File string `arg:"" help:"The config file."`
}

// Run checks the file.
func (c *configCheckCmd) Run(io streams) error {
	_, warnings, err := config.Load(c.File, io.environ).Validate()
	if err != nil {
		return usageError{fmt.Errorf("%s is not valid\n%w", c.File, err)}
	}
	for _, w := range warnings {
		fmt.Fprintln(io.err, "warning:", w)
	}
	fmt.Fprintf(io.out, "%s is valid\n", c.File)
	return nil
}

type configReferenceCmd struct{}

// Run prints the reference.
func (c *configReferenceCmd) Run(io streams) error { return config.WriteReference(io.out) }

type configReloadCmd struct {
	apiClient
	PublishPools bool `help:"Publish the capability pools of its configuration to all instances also if they have not changed since it was loaded."`
}

// Run reloads the configuration of a running instance.
func (c *configReloadCmd) Run(ctx context.Context, io streams) error {
	var out wire.ReloadResponse
	path := "/v1/config/reload"
	if c.PublishPools {
		path += "?publish_pools=true"
	}
	if err := c.request(ctx, "POST", path, nil, &out); err != nil {
		return err
	}
	for _, w := range out.Warnings {
		fmt.Fprintln(io.err, "warning:", w)
	}
	return c.print(io.out, out, func(t *tabwriter.Writer) {
		for _, change := range out.Changed {
			fmt.Fprintln(t, change)
		}
		for _, key := range out.NeedsRestart {
			fmt.Fprintf(t, "%s: needs a restart\n", key)
		}
		if len(out.Changed)+len(out.NeedsRestart) == 0 {
			fmt.Fprintln(t, "nothing has changed")
		}
		fmt.Fprintf(t, "digest of the keys: %s\n", out.KeysDigest)
	})
}
