package worker

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"asyncrepl/jobs"
)

// MemoryLimit returns the limit of the memory of a session in words, or "" if it has none.
func (c Config) MemoryLimit() string {
	if c.Memory == 0 {
		return ""
	}
	return fmt.Sprintf("limit of %d MB", c.Memory)
}

// noRoom is the error of glibc's loader for a module in C that does not fit into a limit of memory.
// A library that catches the error may call itself broken.
var noRoom = []byte("failed to map segment from shared object")

// ShortOfMemory reports whether code raised because memory was short, and returns the limit and
// what else the exception said.
func (c Config) ShortOfMemory(done DoneEvent) (why string, short bool) {
	name, detail, _ := strings.Cut(done.Error, ": ")
	if !done.Memory && name != "MemoryError" && (c.Memory == 0 || !bytes.Contains(done.Exception, noRoom)) {
		return "", false
	}
	if c.Memory == 0 || detail == "" {
		return c.MemoryLimit() + detail, true // at least one of the two is empty
	}
	return c.MemoryLimit() + ": " + detail, true
}

// CrashNote says that code in C may have ended the worker because it reached the limit. It returns
// "" if the exit shows otherwise.
func (c Config) CrashNote(rec jobs.Receipt) string {
	if c.Memory == 0 || rec.Code == 0 && !slices.Contains([]string{"SIGABRT", "SIGBUS", "SIGSEGV"}, rec.Signal) {
		return ""
	}
	return "its memory has a " + c.MemoryLimit() + ", and code in C can crash or exit when it is reached"
}

// Killed returns how many processes of the session the kernel has killed because memory was short,
// since it was last called. The worker's own death is in its exit.
func (w *Worker) Killed() int { return w.handle.ClaimKills() }

// LimitReached reports whether the worker and what it has started have reached the limit of all
// their memory together.
func (w *Worker) LimitReached() bool { return w.group.Full() }
