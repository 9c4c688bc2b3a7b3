package config

import (
	"bytes"
	"errors"
	"fmt"
	"os"

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
	options := env.Options{Prefix: EnvPrefix, Environment: env.ToMap(environ)}
	if err := env.ParseWithOptions(&c, options); err != nil {
		return c, fmt.Errorf("environment: %w", err)
	}
	return c, nil
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
