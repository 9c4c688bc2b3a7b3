package health

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
)

// HubService is a service as a ModelHub lists it.
type HubService struct {
	ServiceID string   `json:"service_id"`
	Name      string   `json:"name,omitempty"`     // for people
	Type      string   `json:"type,omitempty"`     // asr, semantic, nmt, tts, or another
	Versions  []string `json:"versions,omitempty"` // the newest first
}

// HubList is the answer to a request for all services.
type HubList struct {
	Services []HubService `json:"services"`
}

// The bounds of an answer.
const (
	MaxBody     = 8 << 20 // bytes
	MaxServices = 10_000
	MaxVersions = 100 // of a service
	MaxText     = 256 // bytes of an id, a name, a type or a version
)

// ErrEmpty says that a list has no services.
var ErrEmpty = errors.New("the list has no services")

// Check returns what is wrong with a list. The text names the place and repeats nothing of it.
func (l *HubList) Check() error {
	switch {
	case len(l.Services) == 0:
		return ErrEmpty
	case len(l.Services) > MaxServices:
		return fmt.Errorf("the list has %d services; the maximum is %d", len(l.Services), MaxServices)
	}
	seen := make(map[string]bool, len(l.Services))
	for i := range l.Services {
		s := &l.Services[i]
		if err := s.Check(); err != nil {
			return fmt.Errorf("services[%d]: %w", i, err)
		}
		if seen[s.ServiceID] {
			return fmt.Errorf("services[%d]: the service_id is listed twice", i)
		}
		seen[s.ServiceID] = true
	}
	return nil
}

// Check returns what is wrong with a service.
func (s *HubService) Check() error {
	if s.ServiceID == "" {
		return errors.New("the service_id is missing")
	}
	if len(s.Versions) > MaxVersions {
		return fmt.Errorf("it has %d versions; the maximum is %d", len(s.Versions), MaxVersions)
	}
	for _, v := range s.Versions {
		if v == "" {
			return errors.New("a version is empty")
		}
	}
	for _, text := range append([]string{s.ServiceID, s.Name, s.Type}, s.Versions...) {
		if len(text) > MaxText || strings.ContainsFunc(text, unicode.IsControl) {
			return fmt.Errorf("a text is longer than %d bytes, or has control characters", MaxText)
		}
	}
	return nil
}
