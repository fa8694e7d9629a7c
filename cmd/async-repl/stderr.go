//go:build unix

package main

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/kernel/descriptor"
)

// pipeBuf is the number of bytes that a writable pipe takes at once (PIPE_BUF,
// https://man7.org/linux/man-pages/man7/pipe.7.html).
const pipeBuf = 4096

// A logWriter writes to standard error and never waits for its reader: a client that does not read
// the pipe must not stop the server. It drops lines while the pipe is full, and logs how many when
// there is room again.
type logWriter struct {
	file *os.File

	// Guarded by mu.
	mu      sync.Mutex
	dropped int // lines
}

// newLogWriter returns a writer of log lines to stderr. If stderr is not a file, it returns stderr.
func newLogWriter(stderr io.Writer) io.Writer {
	if f, ok := stderr.(*os.File); ok {
		return &logWriter{file: f}
	}
	return stderr
}

// newLog returns a log of lines from a level on.
func newLog(stderr io.Writer, level slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(newLogWriter(stderr), &slog.HandlerOptions{Level: level}))
}

func (l *logWriter) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dropped > 0 && l.writable() {
		fmt.Fprintf(l.file, "async-repl: %d lines of the log were dropped because the log was not read\n", l.dropped)
		l.dropped = 0
	}
	for rest := line; len(rest) > 0; {
		if !l.writable() {
			l.dropped++
			break
		}
		n, err := l.file.Write(rest[:min(len(rest), pipeBuf)])
		if err != nil {
			return 0, err
		}
		rest = rest[n:]
	}
	return len(line), nil
}

// printable replaces the control characters of a log, except tabs and newlines, by question marks. Jobs that run as
// the user of an engine can write to its standard error, which a person reads on a terminal.
func printable(text []byte) []byte {
	return bytes.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' || r == utf8.RuneError {
			return '?'
		}
		return r
	}, text)
}

// writable reports whether a write of up to pipeBuf bytes would not block.
func (l *logWriter) writable() bool {
	ready := false
	err := descriptor.Use(l.file, func(fd int) error {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, 0)
		ready = n > 0
		return err
	})
	return ready && err == nil
}
