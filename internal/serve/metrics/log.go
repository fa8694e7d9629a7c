package metrics

import (
	"encoding/json"
	"io"
	"log/slog"
	"math"
	"os"
	"sync"
	"time"
)

// A Log receives a line of JSON for each request. [Open] and [NewLog] make one.
type Log struct {
	path string // "" if the log has no file
	log  *slog.Logger

	// Guarded by mu.
	mu     sync.Mutex
	out    io.Writer
	close  func() error // closes out, if it is the file
	failed bool         // the last line could not be written
}

// A line is a request as the log shows it.
type line struct {
	Time    string  `json:"time"`
	Tenant  string  `json:"tenant,omitempty"`
	Era     string  `json:"era,omitempty"`
	Method  string  `json:"method"`
	Path    string  `json:"path,omitempty"`
	Tool    string  `json:"tool,omitempty"`
	Job     string  `json:"job,omitempty"`
	Status  int     `json:"status,omitempty"`
	Result  Result  `json:"result"`
	Seconds float64 `json:"seconds"`
	Bytes   int64   `json:"bytes"`
}

// NewLog returns a log that is written to out. log is for what goes wrong.
func NewLog(out io.Writer, log *slog.Logger) *Log {
	return &Log{out: out, log: log}
}

// Open opens the log at path, which is made with mode 0600 if it does not exist. log is for what
// goes wrong later.
func Open(path string, log *slog.Logger) (*Log, error) {
	l := &Log{path: path, log: log}
	return l, l.Reopen()
}

// Reopen opens the path again: the file that it led to can have been renamed. Once the new file
// exists, no line goes to the old one. If Reopen fails, the old file stays in use.
func (l *Log) Reopen() error {
	if l.path == "" {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	file, err := os.OpenFile(l.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if l.close != nil {
		l.close()
	}
	l.out, l.close = file, file.Close
	return nil
}

// Observe adds the line of a request. If it can't be written, the request is not affected.
func (l *Log) Observe(r Request) {
	text, err := json.Marshal(line{
		Time: r.Time.UTC().Format(time.RFC3339Nano), Tenant: r.Tenant, Era: r.Era, Method: r.Method, Path: r.Path, Tool: r.Tool, Job: r.Job,
		Status: r.Status, Result: r.Result, Seconds: math.Round(r.Duration.Seconds()*1e6) / 1e6, Bytes: r.Bytes,
	})
	if err != nil {
		return // no field can cause that
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err = l.out.Write(append(text, '\n'))
	if err != nil && !l.failed {
		l.log.Warn("writing the access log failed", "error", err)
	}
	l.failed = err != nil
}
