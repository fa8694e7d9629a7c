//go:build unix

package main

import (
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// whole is how much a pipe takes at once if it takes anything (PIPE_BUF).
const whole = 4096

// A logWriter writes to standard error without ever waiting for who reads it: a
// client that lets its pipe run full must not stop the server. What finds no
// room is dropped, and how much that was is said when there is room again.
type logWriter struct {
	file *os.File

	// Guarded by mu.
	mu      sync.Mutex
	dropped int // lines
}

// newLogWriter returns what logs to stderr. Only a file can be waited for.
func newLogWriter(stderr io.Writer) io.Writer {
	if f, ok := stderr.(*os.File); ok {
		return &logWriter{file: f}
	}
	return stderr
}

func (l *logWriter) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dropped > 0 && l.takes() {
		fmt.Fprintf(l.file, "async-repl: %d lines of the log were dropped: nobody read them\n", l.dropped)
		l.dropped = 0
	}
	for rest := line; len(rest) > 0; {
		if !l.takes() {
			l.dropped++
			break
		}
		n, err := l.file.Write(rest[:min(len(rest), whole)])
		if err != nil {
			return 0, err
		}
		rest = rest[n:]
	}
	return len(line), nil
}

// takes reports whether a write would be taken at once.
func (l *logWriter) takes() bool {
	conn, err := l.file.SyscallConn()
	if err != nil {
		return false
	}
	ready := false
	err = conn.Control(func(fd uintptr) {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, 0)
		ready = n > 0 && err == nil
	})
	return ready && err == nil
}
