package telemetry

import (
	"fmt"
	"io"
	"log/slog"
)

// Logger makes the log of the program: one line for each record, as text or JSON. Repeated warnings are rate-limited.
func Logger(w io.Writer, level, format string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("log.level: %q is not known; use debug, info, warn or error", level)
	}
	options := &slog.HandlerOptions{Level: l}
	switch format {
	case "text":
		return slog.New(newRateLimitedHandler(slog.NewTextHandler(w, options))), nil
	case "json":
		return slog.New(newRateLimitedHandler(slog.NewJSONHandler(w, options))), nil
	}
	return nil, fmt.Errorf("log.format: %q is not known; use text or json", format)
}
