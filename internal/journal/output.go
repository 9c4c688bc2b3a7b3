package journal

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/lingua-scheduler/lingua/internal/store"
)

// output writes entries to a file, one JSON line each.
type output struct {
	path string // Stderr: of the process
	log  *slog.Logger

	mu   sync.Mutex
	file *os.File
	torn bool // the last write ended within a line
}

func openOutput(path string, log *slog.Logger) (*output, error) {
	o := &output{path: path, log: log, file: os.Stderr}
	if path == Stderr {
		return o, nil
	}
	var err error
	if o.file, err = openFile(path); err == nil {
		o.cutTorn()
	}
	return o, err
}

// maxTorn is the length up to which the end of a file is taken for a line that was written in part. An entry is shorter.
const maxTorn = 64 << 10

// cutTorn cuts off the last line of a regular file if it was written in part: the process or the machine died meanwhile, or the disk was
// full. A file that ends in something else than a part of an entry is left as it is, and continued on a new line.
func (o *output) cutTorn() {
	info, err := o.file.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return
	}
	file, err := os.Open(o.path)
	if err != nil {
		return // it may be appended to, and not read
	}
	defer func() { _ = file.Close() }() // it was only read
	tail := make([]byte, min(info.Size(), maxTorn))
	if _, err := file.ReadAt(tail, info.Size()-int64(len(tail))); err != nil {
		return
	}
	newline := bytes.LastIndexByte(tail, '\n')
	line := tail[newline+1:]
	if len(line) == 0 {
		return
	}
	o.torn = true
	if newline < 0 && len(tail) == maxTorn || !bytes.HasPrefix(line, []byte(`{"`)) || json.Valid(line) {
		return
	}
	if now, err := o.file.Stat(); err != nil || now.Size() != info.Size() || o.file.Truncate(info.Size()-int64(len(line))) != nil {
		return // another process appends to it
	}
	o.torn = false
	o.log.Warn("the audit file ended within an entry, which was cut off", "output", o.path, "bytes", len(line))
}

// openFile opens a file to append to it. A pipe that nobody reads is an error, instead of a wait.
func openFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, fmt.Errorf("audit.output: the file cannot be opened: %w", err)
	}
	return f, nil
}

// reopen replaces the open file by the one that the path names now.
func (o *output) reopen() error {
	if o.path == Stderr {
		return nil
	}
	f, err := openFile(o.path)
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	_ = o.file.Close() // nothing is buffered here
	o.file, o.torn = f, false
	return nil
}

func (o *output) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.path != Stderr {
		_ = o.file.Close() // as above
	}
}

// pipeTimeout is how long a write to a pipe may wait for its reader. A regular file has no deadline.
const pipeTimeout = time.Second

// write writes entries in one call, so that the lines of two processes are not mixed. Repeated after an error, it may write lines
// twice, but never into a line that was written in part.
func (o *output) write(_ context.Context, entries []store.AuditEntry) error {
	var lines bytes.Buffer
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.torn {
		lines.WriteByte('\n')
	}
	encoder := json.NewEncoder(&lines)
	encoder.SetEscapeHTML(false)
	for i := range entries {
		if err := encoder.Encode(&entries[i]); err != nil {
			return err
		}
	}
	if o.path != Stderr { // which the log writes to, too
		_ = o.file.SetWriteDeadline(time.Now().Add(pipeTimeout)) // fails for regular files
	}
	n, err := o.file.Write(lines.Bytes())
	if err != nil {
		if n > 0 {
			o.torn = lines.Bytes()[n-1] != '\n'
		}
		o.log.Warn("the audit file could not be written; entries wait, and are dropped when too many do", "output", o.path, "error", err)
		return err
	}
	o.torn = false
	return nil
}
