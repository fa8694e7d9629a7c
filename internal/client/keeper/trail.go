//go:build unix

package keeper

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"

	"asyncrepl/internal/kernel/descriptor"
	"asyncrepl/internal/text/view"
)

// trailMax bounds the file to which an engine without a client writes warnings.
const trailMax = 1 << 20

// A TrailConfig configures a Trail.
type TrailConfig struct {
	Stderr *os.File               // the standard error of the process
	Writer io.Writer              // writes to Stderr and never waits for its reader
	Path   func() (string, error) // returns the path of the file for warnings
	Level  func(slog.Level)       // sets the least level that is logged
}

// A Trail is where the log of an engine goes: to the front of its client or, without one, to a file. What
// goes there is what the process's standard error refers to, so a panic leaves a trace in either case.
type Trail struct {
	TrailConfig

	mu      sync.Mutex
	file    *os.File // the file for warnings; nil: there is a client, or the file can't be made
	alone   bool     // there is no client
	written int64    // bytes in file
	lines   int      // the warnings since there was a client, those that did not fit included
}

// NewTrail returns a Trail that begins with the standard error of the process.
func NewTrail(c TrailConfig) *Trail { return &Trail{TrailConfig: c} }

// Write writes one line of the log.
func (t *Trail) Write(line []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.alone {
		return t.Writer.Write(line)
	}
	t.lines++
	if t.file == nil || t.written+int64(len(line)) > trailMax {
		return len(line), nil
	}
	n, err := t.file.Write(line)
	t.written += int64(n)
	return n, err
}

// Attach lets the log go to a front. f is what the front has sent for it; nil: the log stays where it is.
func (t *Trail) Attach(f *os.File, level slog.Level) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Level(level)
	if f == nil {
		return
	}
	t.redirect(f)
	t.alone = false
	if t.file == nil {
		return
	}
	if t.lines > 0 {
		fmt.Fprintf(t.Writer, "async-repl: %s logged to %s while no client was connected\n", counted(t.lines), t.file.Name())
	}
	t.release()
}

// Close closes the file for warnings.
func (t *Trail) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.file != nil {
		t.release()
	}
}

// release closes the file for warnings, and removes it if it is empty. The caller holds mu.
func (t *Trail) release() {
	if t.written == 0 {
		os.Remove(t.file.Name())
	}
	t.file.Close()
	t.file, t.lines = nil, 0
}

func counted(n int) string {
	if n == 1 {
		return "1 warning was"
	}
	return view.Count(n) + " warnings were"
}

// Detach lets warnings go to a file: there is no front any more.
func (t *Trail) Detach() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.Level(slog.LevelWarn)
	t.alone = true
	path, err := t.Path()
	if err == nil {
		t.file, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	}
	to := t.file
	if err != nil { // the warnings are only counted
		if to, err = os.OpenFile(os.DevNull, os.O_WRONLY, 0); err != nil {
			return
		}
		defer to.Close()
	} else if info, err := t.file.Stat(); err == nil {
		t.written = info.Size()
	}
	t.redirect(to)
}

// redirect makes the standard error of the process refer to f.
func (t *Trail) redirect(f *os.File) {
	descriptor.Use(f, func(from int) error {
		return descriptor.Use(t.Stderr, func(to int) error { return dup(from, to) })
	})
}
