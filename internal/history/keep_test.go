//go:build unix

package history

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"asyncrepl/internal/output"
	"asyncrepl/internal/process"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/needtest"
	"asyncrepl/jobs"
)

// makeRun runs jobs with these titles in an engine that ends, and returns the directory of its run
// and their ids. Each has a file of output.
func makeRun(t testing.TB, c Config, titles ...string) (dir string, ids []string) {
	t.Helper()
	e := newEngine(c)
	dir = must.Get(e.Dir())(t)
	for _, title := range titles {
		id := e.do(t, title, prints("")).ID()
		must.Do(t, os.MkdirAll(filepath.Join(dir, id), 0o700))
		must.Do(t, os.WriteFile(filepath.Join(dir, id, "output.log"), make([]byte, 64<<10), 0o600))
		ids = append(ids, id)
		awaitNextMillisecond()
	}
	e.end()
	return dir, ids
}

// isSettledAt is isSettled for the directory of a run.
func isSettledAt(t *testing.T, run string) bool {
	t.Helper()
	d := must.Get(openDir(run))(t)
	defer d.root.Close()
	return isSettled(d)
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func TestOldestPastJobsAreForgotten(t *testing.T) {
	c := newConfig(t)
	oldest, _ := makeRun(t, c, "1", "2")
	middle, ids := makeRun(t, c, "3", "4", "5", "6")
	newest, _ := makeRun(t, c, "7", "8")
	c.Keep = 3
	e := newEngine(c)
	defer e.end()
	if got := e.titles(jobs.Filter{}); !slices.Equal(got, []string{"8", "7", "6"}) {
		t.Errorf("listed %q", got)
	}
	before := must.Get(os.Stat(filepath.Join(middle, journalName)))(t)
	must.Do(t, e.sweep())
	if exists(oldest) || !exists(newest) || exists(filepath.Join(middle, ids[0])) || !exists(filepath.Join(middle, ids[3])) {
		t.Error("not the oldest were removed")
	}
	journal := must.Get(os.ReadFile(filepath.Join(middle, journalName)))(t)
	after := must.Get(os.Stat(filepath.Join(middle, journalName)))(t)
	if bytes.Contains(journal, []byte(ids[2])) || !bytes.Contains(journal, []byte(ids[3])) || !isSettledAt(t, middle) {
		t.Errorf("the journal was not rewritten:\n%s", journal)
	}
	if !after.ModTime().Equal(before.ModTime()) {
		t.Error("the journal does not say any more when its run ended")
	}
	if got := e.titles(jobs.Filter{}); !slices.Equal(got, []string{"8", "7", "6"}) {
		t.Errorf("listed %q after the sweep", got)
	}
}

func TestOldPastJobsAreForgotten(t *testing.T) {
	c := newConfig(t)
	other := c
	other.Workspace = t.TempDir()
	own, _ := makeRun(t, c, "1")
	others, _ := makeRun(t, other, "2")
	living := newEngine(other)
	defer living.end()
	living.do(t, "3", prints(""))
	part := filepath.Join(filepath.Dir(own), strings.Repeat("0", idLength)) // a crash has left it
	must.Do(t, os.MkdirAll(filepath.Join(part, "pip-X"), 0o700))
	must.Do(t, os.Chtimes(part, time.Time{}, time.Now().Add(-2*unnamedAge)))
	c.MaxAge = 1
	e := newEngine(c)
	defer e.end()
	if got := e.titles(jobs.Filter{}); got != nil {
		t.Errorf("listed %q", got)
	}
	must.Do(t, e.sweep())
	if exists(own) || exists(others) || exists(filepath.Dir(own)) {
		t.Error("old runs are left")
	}
	if dir := must.Get(living.Dir())(t); !exists(dir) {
		t.Error("the run of a living engine was removed")
	}
}

// A sweep leaves the run of an engine that is killed meanwhile.
func TestKilledDuringASweep(t *testing.T) {
	c := newConfig(t)
	before, killed := newEngine(c), newEngine(c)
	before.do(t, "1", prints(""))
	awaitNextMillisecond()
	killed.do(t, "2", prints(""))
	before.kill(t)
	c.Kill = func(string) ([]process.Marked, error) { killed.kill(t); return nil, nil }
	e := newEngine(c)
	defer e.end()
	must.Do(t, e.sweep())
	if got := e.titles(jobs.Filter{}); !slices.Equal(got, []string{"2", "1"}) {
		t.Errorf("listed %q", got)
	}
}

func TestOldestOutputMakesRoom(t *testing.T) {
	c := newConfig(t)
	other := c
	other.Workspace = t.TempDir()
	first, a := makeRun(t, c, "1", "2")
	second, b := makeRun(t, other, "3", "4")
	e := newEngine(c)
	defer e.end()
	if !e.MakeRoom(100 << 10) {
		t.Error("no room was made")
	}
	for id, want := range map[string]bool{first + "/" + a[0]: false, first + "/" + a[1]: false, second + "/" + b[0]: true, second + "/" + b[1]: true} {
		if exists(id) != want {
			t.Errorf("%s exists: %t", id, !want)
		}
	}
	if taken := e.Taken(); taken < 128<<10 || taken > 256<<10 {
		t.Errorf("%d bytes are taken", taken)
	}
	e.config.MaxBytes = 100 << 10
	must.Do(t, e.sweep())
	if exists(second+"/"+b[0]) || !exists(second+"/"+b[1]) || e.Taken() > 100<<10 {
		t.Errorf("%d bytes are taken", e.Taken())
	}
	if got := e.titles(jobs.Filter{}); !slices.Equal(got, []string{"2", "1"}) {
		t.Errorf("the records are gone, too: %q", got)
	}
	e.config.MaxBytes = 1
	must.Do(t, e.sweep())
	if exists(first) || exists(second) {
		t.Error("runs are left although nothing may be")
	}
	if e.MakeRoom(1) {
		t.Error("room was made of nothing")
	}
}

// Output of this run takes the room of past runs before it takes any of its own.
func TestPastOutputMakesRoomForOutput(t *testing.T) {
	c := newConfig(t)
	past, ids := makeRun(t, c, "1", "2", "3")
	s := Open(c)
	must.Do(t, s.sweep())
	logs := output.NewStore(output.Config{Disk: 600 << 10, Dir: s.Dir, Others: s.Taken, MakeRoom: s.MakeRoom})
	e := engine{s, jobs.NewRegistry(jobs.Config{Store: s, Logs: logs})}
	defer e.end()
	long := strings.Repeat("x", 250<<10)
	first, second := e.do(t, "a", prints(long)), e.do(t, "b", prints(long))
	for _, j := range []*jobs.Job{first, second} {
		if st := j.Record().Output; st.Dropped > 0 {
			t.Errorf("%s has lost output: %+v", j.Record().Title, st)
		}
	}
	if exists(filepath.Join(past, ids[0])) || s.Taken() > 100<<10 {
		t.Errorf("past runs take %d bytes", s.Taken())
	}
	e.do(t, "c", prints(long)) // now the first job has to give way, too
	if st := first.Record().Output; st.Loss.Limit == 0 {
		t.Errorf("the limit was exceeded: %+v", st)
	}
}

// A journal is rewritten when most of it is about forgotten jobs, and its lock holds all the time.
func TestJournalOfForgottenJobsIsRewritten(t *testing.T) {
	c := newConfig(t)
	s := Open(c)
	e := engine{s, jobs.NewRegistry(jobs.Config{Store: s, Keep: 10})}
	path := filepath.Join(must.Get(e.Dir())(t), journalName)
	watcher := newEngine(c)
	defer watcher.end()
	most := int64(0)
	var last string
	for i := range 3000 {
		last = e.do(t, fmt.Sprint(i), prints("")).ID()
		if i%50 == 0 {
			st := must.Get(os.Stat(path))(t)
			most = max(most, st.Size())
			if got := watcher.titles(jobs.Filter{}); got != nil {
				t.Fatalf("another engine takes the run for one that has ended, and lists %d jobs", len(got))
			}
		}
	}
	if most > 1<<20 {
		t.Errorf("the journal had %d bytes", most)
	}
	e.end()
	if j := must.Get(watcher.Get(last))(t); j.Record().Title != "2999" {
		t.Errorf("the last job is %+v", j.Record())
	}
}

// What is no journal, or no directory, is skipped or refused with one sentence, and nothing waits.
func TestBadInput(t *testing.T) {
	root := os.Geteuid() == 0
	for name, tc := range map[string]struct {
		spoil func(t *testing.T, c *Config, run string)
		read  int    // the past jobs that are still read
		why   string // the reason why nothing is recorded; empty: it is
		not   string // the reason why a run was not read; empty: it was, or was skipped
	}{
		"nothing": {func(*testing.T, *Config, string) {}, 1, "", ""},
		"file for the state directory": {func(t *testing.T, c *Config, _ string) {
			must.Do(t, os.RemoveAll(c.State))
			must.Do(t, os.WriteFile(c.State, nil, 0o600))
		}, 0, "not a directory", ""},
		"file for all runs": {func(t *testing.T, c *Config, run string) {
			runs := filepath.Dir(filepath.Dir(run))
			must.Do(t, os.RemoveAll(runs))
			must.Do(t, os.WriteFile(runs, nil, 0o600))
		}, 0, "runs is not a directory: move it away", ""},
		"file for the workspace": {func(t *testing.T, c *Config, run string) {
			must.Do(t, os.RemoveAll(filepath.Dir(run)))
			must.Do(t, os.WriteFile(filepath.Dir(run), nil, 0o600))
		}, 0, "is not a directory: move it away", ""},
		"file for a run": {func(t *testing.T, c *Config, run string) {
			must.Do(t, os.RemoveAll(run))
			must.Do(t, os.WriteFile(run, nil, 0o600))
		}, 0, "", ""},
		"directory for a journal": {func(t *testing.T, c *Config, run string) {
			must.Do(t, os.Remove(filepath.Join(run, journalName)))
			must.Do(t, os.Mkdir(filepath.Join(run, journalName), 0o700))
		}, 0, "", "is no journal: remove"},
		"pipe for a journal": {func(t *testing.T, c *Config, run string) {
			must.Do(t, os.Remove(filepath.Join(run, journalName)))
			must.Do(t, syscall.Mkfifo(filepath.Join(run, journalName), 0o600))
		}, 0, "", "is no journal: remove"},
		"pipe for run.json": {func(t *testing.T, c *Config, run string) {
			must.Do(t, os.Remove(filepath.Join(run, runName)))
			must.Do(t, syscall.Mkfifo(filepath.Join(run, runName), 0o600))
		}, 0, "", "is no record of a run"},
		"rubbish for run.json": {func(t *testing.T, c *Config, run string) {
			must.Do(t, os.WriteFile(filepath.Join(run, runName), []byte("{"), 0o600))
		}, 0, "", "is no record of a run"},
		"newer format": {func(t *testing.T, c *Config, run string) {
			must.Do(t, os.WriteFile(filepath.Join(run, runName), []byte(`{"format":2,"version":"v9"}`), 0o600))
		}, 0, "", "was written by async-repl v9, in another format"},
		"much of zeros": {func(t *testing.T, c *Config, run string) {
			must.Do(t, os.Truncate(filepath.Join(run, journalName), maxJournal/16))
		}, 1, "", ""},
		"more than that": {func(t *testing.T, c *Config, run string) {
			must.Do(t, os.Truncate(filepath.Join(run, journalName), maxJournal+1))
		}, 0, "", "is no journal: remove"},
		"read-only": {func(t *testing.T, c *Config, run string) {
			if root {
				t.Skip("root can write to it")
			}
			must.Do(t, os.Chmod(filepath.Dir(run), 0o500))
			t.Cleanup(func() { os.Chmod(filepath.Dir(run), 0o700) })
		}, 1, "permission denied", ""},
		"open to others": {func(t *testing.T, c *Config, run string) { must.Do(t, os.Chmod(c.State, 0o777)) }, 1, "other users can write to", ""},
		"of another user": {func(t *testing.T, c *Config, run string) {
			needtest.Root(t, "give a directory away")
			must.Do(t, os.Chown(c.State, 4711, 4711))
		}, 1, "belongs to another user: set REPL_STATE_DIR", ""},
		"long paths": {func(t *testing.T, c *Config, run string) {
			part := "/" + strings.Repeat("x", 130)
			c.State += part + part + part
			c.Workspace += part + part + part
		}, 0, "", ""},
		"no home": {func(t *testing.T, c *Config, run string) { c.State = "" }, 0, "set REPL_STATE_DIR", ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := newConfig(t)
			run, _ := makeRun(t, c, "past")
			tc.spoil(t, &c, run)
			began := time.Now()
			e := newEngine(c)
			if got := len(e.List(jobs.Filter{})); got != tc.read {
				t.Errorf("%d past jobs are read, want %d", got, tc.read)
			}
			e.do(t, "now", prints("hello"))
			st := e.Status()
			if tc.why == "" && st.Failure != nil || tc.why != "" && (st.Failure == nil || !strings.Contains(st.Failure.Error(), tc.why)) {
				t.Errorf("not recorded: %v, want %q", st.Failure, tc.why)
			}
			if tc.not == "" && st.Unread != nil || tc.not != "" && (st.Unread == nil || !strings.Contains(st.Unread.Error(), tc.not)) {
				t.Errorf("not read: %v, want %q", st.Unread, tc.not)
			}
			if got := text(must.Get(e.Find(e.List(jobs.Filter{})[0].ID))(t)); got != "hello" {
				t.Errorf("the job has printed %q", got)
			}
			e.Settle()
			e.sweep() // an error: there is no directory of runs
			e.end()
			if took := time.Since(began); took > 30*time.Second { // a hang; the race detector takes seconds on a busy machine
				t.Errorf("it took %v", took)
			}
		})
	}
}

// A directory for files that end with the engine is removed by it, or by the next one. That ends
// the processes that are left, too.
func TestScratch(t *testing.T) {
	c := newConfig(t)
	c.Off = true
	var made, asked []string
	c.OnScratch = func(dir string) { made = append(made, dir) }
	c.Mark = func() string { return "MARK=1" }
	c.Kill = func(mark string) ([]process.Marked, error) { asked = append(asked, mark); return nil, nil }
	first, second := newEngine(c), newEngine(c)
	dir, other := must.Get(first.Dir())(t), must.Get(second.Dir())(t)
	must.Do(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	part := filepath.Join(filepath.Dir(dir), strings.Repeat("0", idLength)) // a crash has left it
	must.Do(t, os.Mkdir(part, 0o700))
	must.Do(t, os.Chtimes(part, time.Time{}, time.Now().Add(-2*unnamedAge)))
	if !slices.Equal(made, []string{dir, other}) {
		t.Errorf("made were %q, got %s and %s", made, dir, other)
	}
	second.Settle()
	if !exists(dir) || asked != nil {
		t.Errorf("what a living engine has was removed; killed %q", asked)
	}
	first.kill(t)
	second.Settle()
	if exists(dir) || !slices.Equal(asked, []string{"MARK=1"}) {
		t.Errorf("what a killed engine has left is there; killed %q", asked)
	}
	second.end()
	if names := must.Get(os.ReadDir(c.State))(t); len(names) > 0 {
		t.Errorf("left: %v", names)
	}
}

// An output that is no UTF-8 reads back as it was.
func TestShortOutputReadsBack(t *testing.T) {
	want := jobs.Saved{Record: record("01K9ZC3V7Q0W6N8X2M4B5D7F9H"), Short: []output.Span{
		{Stream: output.Stdout, Data: []byte("é\x00\n")}, {Stream: output.Stderr, Data: []byte("\xff\xfe")}, {Stream: output.Result, Data: []byte("42")},
	}}
	got := must.Get(decode(must.Get(encode(end, want))(t)))(t)
	if !slices.EqualFunc(got.Short, want.Short, func(a, b output.Span) bool { return a.Stream == b.Stream && bytes.Equal(a.Data, b.Data) }) {
		t.Errorf("got %q, want %q", got.Short, want.Short)
	}
}
