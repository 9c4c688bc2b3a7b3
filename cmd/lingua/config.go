package main

import (
	"fmt"

	"github.com/lingua-scheduler/lingua/internal/config"
)

type configCmd struct {
	Check     configCheckCmd     `cmd:"" help:"Check a config file together with the environment, and print every error in it."`
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
