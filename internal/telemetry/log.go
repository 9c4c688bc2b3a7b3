package telemetry

import (
	"fmt"
	"io"
	"log/slog"
)

// Logger makes the program's log: one line per event, as text for people or as JSON for machines.
func Logger(w io.Writer, level, format string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("log.level: %q is not known; use debug, info, warn or error", level)
	}
	options := &slog.HandlerOptions{Level: l}
	switch format {
	case "text":
		return slog.New(calmed(slog.NewTextHandler(w, options))), nil
	case "json":
		return slog.New(calmed(slog.NewJSONHandler(w, options))), nil
	}
	return nil, fmt.Errorf("log.format: %q is not known; use text or json", format)
}
