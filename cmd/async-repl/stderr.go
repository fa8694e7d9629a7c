//go:build unix

package main

import (
	"fmt"
	"io"
	"os"
	"sync"

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
