package redisstore_test

import (
	"fmt"
	"strings"
	"time"
)

// diary is what happened on a node lately, for whoever has to find out how a breach came about.
type diary struct{ lines []string }

const diaryLines = 50

func (d *diary) add(format string, args ...any) {
	if len(d.lines) == 2*diaryLines {
		d.lines = append(d.lines[:0], d.lines[diaryLines:]...)
	}
	d.lines = append(d.lines, time.Now().Format("05.0000 ")+fmt.Sprintf(format, args...))
}

func (d *diary) String() string {
	return strings.Join(d.lines[max(0, len(d.lines)-diaryLines):], "\n")
}
