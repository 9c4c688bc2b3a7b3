package main

import (
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// printable escapes what is not printable in text that another program wrote: a terminal would execute it.
func printable(text string) string {
	var b strings.Builder
	for len(text) > 0 {
		r, n := utf8.DecodeRuneInString(text)
		if strconv.IsPrint(r) && (r != utf8.RuneError || n > 1) {
			b.WriteString(text[:n])
		} else {
			q := strconv.Quote(text[:n])
			b.WriteString(q[1 : len(q)-1])
		}
		text = text[n:]
	}
	return b.String()
}

// formatAge formats the time since a moment, such as "5s ago".
func formatAge(unixMS int64) string {
	d := time.Since(time.UnixMilli(unixMS))
	switch {
	case d < time.Second:
		return "now"
	case d < time.Minute:
		return d.Round(time.Second).String() + " ago"
	}
	return d.Round(time.Minute).String() + " ago"
}

// formatDate formats a time in UTC; 0 is no time.
func formatDate(unixMS int64) string {
	if unixMS == 0 {
		return ""
	}
	return time.UnixMilli(unixMS).UTC().Format(time.RFC3339)
}

// secondsOf formats milliseconds as whole seconds, such as "1m5s".
func secondsOf(ms int64) string {
	return (time.Duration(ms) * time.Millisecond).Round(time.Second).String()
}
