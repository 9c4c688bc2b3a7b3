package config

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/caarlos0/env/v11"
	"github.com/pelletier/go-toml/v2"
)

// EnvPrefix begins the name of every environment variable that is read.
const EnvPrefix = "LINGUA_"

// Load makes a configuration: the defaults, then the file if one is named, then the environment. It is not
// validated yet: flags may still change it.
func Load(file string, environ []string) (Config, error) {
	c := Default()
	if file != "" {
		body, err := os.ReadFile(file)
		if err != nil {
			return c, fmt.Errorf("cannot read the config file: %w", err)
		}
		if err := Decode(body, &c); err != nil {
			return c, fmt.Errorf("%s: %w", file, err)
		}
	}
	if err := fromEnvironment(&c, environ); err != nil {
		return c, fmt.Errorf("environment: %w", err)
	}
	return c, nil
}

// elsewhere are variables that begin like ours and are read by others: the commands that ask a scheduler.
var elsewhere = []string{EnvPrefix + "URL"}

// fromEnvironment lets variables win over what c holds. One that begins like ours and is not known is
// refused: it is a misspelling that would otherwise do nothing.
func fromEnvironment(c *Config, environ []string) error {
	options := env.Options{Prefix: EnvPrefix}
	fields, err := env.GetFieldParamsWithOptions(c, options)
	if err != nil {
		return err
	}
	for _, variable := range environ {
		name, _, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, EnvPrefix) || slices.Contains(elsewhere, name) {
			continue
		}
		if !slices.ContainsFunc(fields, func(f env.FieldParams) bool { return f.Key == name }) {
			return fmt.Errorf("%s is not known; lingua config reference lists the variables", name)
		}
		// One at a time: the library's errors name the field, not the variable.
		options.Environment = env.ToMap([]string{variable})
		if err := env.ParseWithOptions(c, options); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// Decode reads a TOML document over what c holds. A key it does not know is refused with its line.
func Decode(body []byte, c *Config) error {
	err := toml.NewDecoder(bytes.NewReader(body)).DisallowUnknownFields().Decode(c)
	var unknown *toml.StrictMissingError
	var wrong *toml.DecodeError
	switch {
	case errors.As(err, &unknown):
		return fmt.Errorf("unknown key; see lingua config reference for the known ones\n%s", unknown.String())
	case errors.As(err, &wrong):
		return fmt.Errorf("not as it should be\n%s", wrong.String())
	}
	return err
}
