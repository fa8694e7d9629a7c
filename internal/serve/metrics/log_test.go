package metrics

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/needtest"
	"asyncrepl/internal/test/polltest"
)

// A line that is written after the new file has appeared is in it.
func TestNoLineGoesToTheOldFileOnceThereIsANewOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.log")
	l := must.Get(Open(path, slog.New(slog.DiscardHandler)))(t)
	for range 200 {
		must.Do(t, os.Rename(path, path+".1"))
		reopened := make(chan error, 1) // read after the line
		go func() { reopened <- l.Reopen() }()
		end := time.Now().Add(polltest.Patience)
		for _, err := os.Stat(path); err != nil; _, err = os.Stat(path) { // a wait of a millisecond would see it too late
			if runtime.Gosched(); time.Now().After(end) {
				t.Fatal("there is no new file")
			}
		}
		l.Observe(Request{Method: "GET"})
		if err := <-reopened; err != nil {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(path); err != nil || len(text) == 0 {
			t.Fatalf("the new file holds %q (%v)", text, err)
		}
	}
}

// Each request is a line. A file that is renamed stays in use until the path is opened again.
func TestLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.log")
	l := must.Get(Open(path, slog.New(slog.DiscardHandler)))(t)
	began := time.Date(2026, 11, 22, 8, 0, 0, 123456789, time.FixedZone("", 3600))
	call := Request{
		Time: began, Duration: 1234567 * time.Nanosecond, Tenant: "ada", Era: "2026-07-28", Method: "tools/call",
		Tool: "execute_python", Job: "01M0WZ5JN3Q0R1ZC5D0J8V7K2T", Status: 200, Result: OK, Bytes: 321,
	}
	refused := Request{Time: began, Method: "GET", Path: "/files/", Status: 403, Result: Refused}
	l.Observe(call)
	must.Do(t, os.Rename(path, path+".1"))
	l.Observe(refused)
	must.Do(t, l.Reopen())
	l.Observe(refused)
	const first = `{"time":"2026-11-22T07:00:00.123456789Z","tenant":"ada","era":"2026-07-28","method":"tools/call",` +
		`"tool":"execute_python","job":"01M0WZ5JN3Q0R1ZC5D0J8V7K2T","status":200,"result":"ok","seconds":0.001235,"bytes":321}` + "\n"
	const second = `{"time":"2026-11-22T07:00:00.123456789Z","method":"GET","path":"/files/","status":403,"result":"refused","seconds":0,"bytes":0}` + "\n"
	for file, want := range map[string]string{path + ".1": first + second, path: second} {
		if got, err := os.ReadFile(file); err != nil || string(got) != want {
			t.Errorf("%s: %v\n%s", file, err, got)
		}
		if st, err := os.Stat(file); err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", file, st.Mode(), err)
		}
	}
}

// A log that can't be written is reported once, and a path that can't be opened again keeps the old
// file.
func TestLogThatCannotBeWritten(t *testing.T) {
	needtest.Linux(t, "/dev/full")
	dir := t.TempDir()
	if _, err := Open(filepath.Join(dir, "none", "access.log"), slog.New(slog.DiscardHandler)); err == nil {
		t.Error("a log in a directory that does not exist was opened")
	}
	path := filepath.Join(dir, "access.log")
	must.Do(t, os.Symlink("/dev/full", path))
	var said bytes.Buffer
	l := must.Get(Open(path, slog.New(slog.NewTextHandler(&said, nil))))(t)
	l.Observe(Request{})
	l.Observe(Request{})
	if n := strings.Count(said.String(), "no space left on device"); n != 1 {
		t.Errorf("said %d times: %s", n, said.String())
	}
	os.Remove(path)
	must.Do(t, os.Mkdir(path, 0o700))
	if err := l.Reopen(); err == nil {
		t.Error("a directory was opened")
	}
	l.Observe(Request{})
	if n := strings.Count(said.String(), "no space left on device"); n != 1 {
		t.Errorf("said %d times: %s", n, said.String())
	}
}
