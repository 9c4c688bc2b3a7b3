package core

import (
	"errors"
	"strings"
)

// What a node declares must have a name by which a job can require it: see CheckRequired.

var (
	errServiceName = errors.New("must not contain any of @ , < > = nor control characters: a job could not require it; give the version " +
		"in version")
	errModelName = errors.New("must be an id, or an id, an @ and a version; the id must not contain any of , < > =, and neither may " +
		"have control characters: a job could not require it")
)

// CheckServiceName returns why no service may have an id; nil if it may.
func CheckServiceName(id string) error {
	if !validName(id) {
		return errServiceName
	}
	return nil
}

// CheckModelName returns why no model may be declared by a name; nil if it may. A version may be any text without control characters: one
// that cannot be compared satisfies only the condition that it is this text, and the model can be required by its id alone.
func CheckModelName(name string) error {
	if id, version, _ := strings.Cut(name, "@"); !validName(id) || CheckText(version) != nil {
		return errModelName
	}
	return nil
}
