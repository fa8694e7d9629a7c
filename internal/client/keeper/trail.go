//go:build unix

package keeper

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/kernel/descriptor"
	"asyncrepl/internal/text/view"
)

// trailMax bounds the file to which an engine without a client writes warnings.
const trailMax = 1 << 20

// A Trail is where the log of an engine goes: to the front of its client or, without one, to a
// file. What goes there is what the process's standard error refers to, so a panic leaves a trace
// in either case.
type Trail struct {
	Stderr *os.File               // the standard error of the process
	Writer io.Writer              // writes to Stderr and never waits for its reader
	Path   func() (string, error) // returns the path of the file for warnings
	Level  func(slog.Level)       // sets the least level that is logged

	mu      sync.Mutex
	alone   bool   // there is no client
	path    string // the file for warnings; empty: there is a client, or the file can't be made
	written int64  // bytes in it
	lines   int    // the warnings since there was a client, those that did not fit included
}

// Write writes one line of the log.
func (t *Trail) Write(line []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.alone {
		t.lines++
		if t.written += int64(len(line)); t.written > trailMax {
			return len(line), nil
		}
	}
	return t.Writer.Write(line)
}

// Attach lets the log go to a front. f is what the front has sent for it; nil: the log stays where
// it is.
func (t *Trail) Attach(f *os.File, level slog.Level) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Level(level)
	if f == nil {
		return
	}
	t.redirect(f)
	if t.lines > 0 && t.path != "" {
		were := "warnings were"
		if t.lines == 1 {
			were = "warning was"
		}
		fmt.Fprintf(t.Writer, "async-repl: %s %s logged to %s while no client was connected\n", view.Count(t.lines), were, t.path)
	}
	t.close()
	t.alone = false
}

// Close removes the file for warnings if there are none.
func (t *Trail) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.close()
}

// close is Close for a caller that holds mu.
func (t *Trail) close() {
	if t.path != "" && t.written == 0 {
		os.Remove(t.path)
	}
	t.path, t.written, t.lines = "", 0, 0
}

// Detach lets warnings go to a file: there is no front any more. If there can be no file, they are
// only counted.
func (t *Trail) Detach() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Level(slog.LevelWarn)
	t.alone = true
	path, err := t.Path()
	f, openErr := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil || openErr != nil {
		path = ""
		f, err = os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	}
	if err != nil {
		return
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil {
		t.written = info.Size()
	}
	t.path = path
	t.redirect(f)
}

// redirect makes the standard error of the process refer to f.
func (t *Trail) redirect(f *os.File) {
	descriptor.Use(f, func(from int) error {
		return descriptor.Use(t.Stderr, func(to int) error { return unix.Dup2(from, to) })
	})
}
