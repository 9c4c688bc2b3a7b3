package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/lingua-scheduler/lingua/internal/config"
	"github.com/lingua-scheduler/lingua/wire"
)

type configCmd struct {
	Check     configCheckCmd     `cmd:"" help:"Check a config file together with the environment, and print every error in it."`
	Reload    configReloadCmd    `cmd:"" help:"Let a running scheduler read its configuration again: keys, signers and capability pools change without a restart."`
	Show      configShowCmd      `cmd:"" help:"Show the configuration that is in force on a running scheduler, without secrets."`
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

type configShowCmd struct {
	apiClient
	Changed bool `help:"Only keys that do not have their default value."`
}

// Run shows the configuration of a running instance.
func (c *configShowCmd) Run(ctx context.Context, io streams) error {
	var out wire.ConfigView
	if err := c.request(ctx, "GET", "/v1/config", nil, &out); err != nil {
		return err
	}
	if c.Changed {
		out.Settings = slices.DeleteFunc(out.Settings, func(s wire.ConfigSetting) bool { return s.Default })
	}
	return c.print(io.out, out, func(t *tabwriter.Writer) {
		fmt.Fprintln(t, "KEY\tVALUE\t")
		for _, s := range out.Settings {
			value, note := printable(s.Value), ""
			switch {
			case s.Hidden:
				value = "(set, not shown)"
			case s.Default:
				note = "default"
			}
			fmt.Fprintf(t, "%s\t%s\t%s\n", strings.TrimPrefix(s.Section+"."+s.Key, "."), value, note)
		}
		fmt.Fprintln(t, "\nNAME\tROLE\tTENANT\tSECRETS\tREFUSED")
		for _, k := range out.Keys {
			fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%s\n", k.Name, k.Role, k.TenantID, k.Secrets, k.Refused)
		}
		for _, key := range out.NeedsRestart {
			fmt.Fprintf(t, "%s: needs a restart\n", key)
		}
	})
}
