//go:build unix

package history

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/internal/output"
	"asyncrepl/internal/process"
	"asyncrepl/internal/test/must"
	"asyncrepl/jobs"
)

// An engine is a registry with its records, as the engine of a server has them.
type engine struct {
	*Store
	*jobs.Registry
}

// newEngine returns an engine of the state directory and workspace of c.
func newEngine(c Config) engine {
	s := Open(c)
	logs := output.NewStore(output.Config{Cap: 1 << 20, Dir: s.Dir})
	return engine{s, jobs.NewRegistry(jobs.Config{Store: s, Logs: logs})}
}

// end ends the engine as a server does at its shutdown.
func (e engine) end() {
	e.Registry.Close(jobs.Stop{By: jobs.Shutdown, From: jobs.Kill})
	e.Store.Close()
}

// kill ends the engine as a SIGKILL does: the lock is released and nothing is written any more. Its
// jobs are those of the test.
func (e engine) kill(t *testing.T) {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, r := range []*run{e.run, e.scratch} {
		if r != nil {
			r.release()
		}
	}
	e.closed.Store(true)
	if e.sweeper != nil {
		e.sweeper.Stop()
	}
}

// A runFunc is a runner.
type runFunc func(ctx context.Context, p *jobs.Port) jobs.Outcome

func (f runFunc) Run(ctx context.Context, p *jobs.Port) jobs.Outcome { return f(ctx, p) }

// prints writes a text and ends.
func prints(text string) runFunc {
	return func(_ context.Context, p *jobs.Port) jobs.Outcome {
		p.Begin()
		p.Write(output.TTY, []byte(text))
		return jobs.Outcome{Receipt: jobs.Receipt{End: jobs.Exited}}
	}
}

// waits prints a text and runs until it is stopped.
func waits(text string) runFunc {
	return func(ctx context.Context, p *jobs.Port) jobs.Outcome {
		p.Begin()
		p.Write(output.TTY, []byte(text))
		<-ctx.Done()
		return jobs.Outcome{Receipt: jobs.Receipt{End: jobs.Signaled, Signal: "SIGKILL", Stop: p.Stop()}}
	}
}

// runs starts a job that prints a text and runs until it is stopped, by the end of the test if need
// be.
func (e engine) runs(t *testing.T, spec jobs.Spec, text string) *jobs.Job {
	t.Helper()
	j := must.Get(e.Start(spec, waits(text)))(t)
	t.Cleanup(func() {
		j.Stop(jobs.Stop{From: jobs.Kill})
		<-j.Done()
	})
	return j
}

// do runs a job to its end.
func (e engine) do(t testing.TB, title string, run jobs.Runner) *jobs.Job {
	t.Helper()
	j := must.Get(e.Start(jobs.Spec{Kind: jobs.Shell, Title: title}, run))(t)
	<-j.Done()
	return j
}

// text returns all output of a job.
func text(j *jobs.Job) string {
	var b []byte
	for _, s := range j.Log().Read(0, 1<<20).Spans {
		b = append(b, s.Data...)
	}
	return string(b)
}

func newConfig(t testing.TB) Config {
	return configIn(filepath.Join(t.TempDir(), "state"), t.TempDir())
}

func configIn(state, workspace string) Config {
	return Config{
		State: state, Workspace: workspace, Version: "v1",
		OnScratch: func(string) {},
		Mark:      func() string { return "" },
		Kill:      func(string) ([]process.Marked, error) { return nil, nil },
		Log:       slog.New(slog.DiscardHandler),
	}
}

// titles returns the titles of the jobs that an engine lists.
func (e engine) titles(f jobs.Filter) (list []string) {
	for _, record := range e.List(f) {
		list = append(list, record.Title)
	}
	return list
}

func TestPastJobsAreFinal(t *testing.T) {
	c := newConfig(t)
	first := newEngine(c)
	a, b := first.do(t, "a", prints("hello\xff")), first.do(t, "b", prints(""))
	first.end()

	second := newEngine(c)
	defer second.end()
	if got := second.titles(jobs.Filter{}); !slices.Equal(got, []string{"b", "a"}) {
		t.Fatalf("listed %q", got)
	}
	past := must.Get(second.Get(strings.ToLower(a.ID())))(t)
	if got := past.Record(); got.Status != jobs.Completed || got.Title != "a" || !got.Ended.Equal(a.Record().Ended) || !past.Past() {
		t.Errorf("got %+v", got)
	}
	if got := text(past); got != "hello\xff" {
		t.Errorf("output %q", got)
	}
	if p := must.Get(second.Find(b.ID()[:20]))(t); p.ID() != a.ID() && p.ID() != b.ID() {
		t.Errorf("found %s", p.ID())
	}
	if _, err := past.Send(t.Context(), jobs.Input{Text: "x"}); !errors.Is(err, jobs.ErrEnded) {
		t.Errorf("input: %v", err)
	}
	past.Stop(jobs.Stop{By: jobs.Agent})
	select {
	case <-past.Done():
	default:
		t.Error("a past job is not done")
	}
	own := second.do(t, "c", prints("x"))
	for want, f := range map[string]jobs.Filter{
		"c b a": {}, "c b": {Limit: 2}, "b a": {Before: own.ID()}, "a": {Before: b.ID()}, "": {Before: a.ID()},
		" ": {Status: []jobs.Status{jobs.Running}},
	} {
		if got := strings.Join(second.titles(f), " "); got != strings.TrimSpace(want) {
			t.Errorf("%+v: got %q, want %q", f, got, want)
		}
	}
	var absent *jobs.NotFoundError
	if _, err := second.Get("01K00000000000000000000000"); !errors.As(err, &absent) || len(absent.Nearest) != 3 {
		t.Errorf("got %v", err)
	}
}

// A job without an end has failed with its server, which was killed; and a run that a process locks
// is no past run.
func TestKilledServer(t *testing.T) {
	c := newConfig(t)
	first := newEngine(c)
	running := first.runs(t, jobs.Spec{Kind: jobs.Python, Session: "default", Title: "runs"}, "begun")
	must.Do(t, running.Log().Wait(t.Context(), 0))
	text(running) // a reply shows it
	second := newEngine(c)
	if got := second.titles(jobs.Filter{}); got != nil {
		t.Errorf("jobs of a living engine: %q", got)
	}
	first.kill(t)
	past := must.Get(second.Get(running.ID()))(t)
	if got := past.Record().Receipt.Text(); got != "failed (server was killed; variables lost)" || past.Record().Status != jobs.Failed {
		t.Errorf("%s: %q", past.Record().Status, got)
	}
	second.end()
}

// drawsOn is a runner on a terminal of that size, which clients can resize, that runs until it is stopped. A
// resize reports a failure although it has taken effect, as one with text can.
func drawsOn(rows, cols int) runFunc {
	return func(ctx context.Context, p *jobs.Port) jobs.Outcome {
		var size atomic.Pointer[jobs.Size]
		size.Store(&jobs.Size{Rows: rows, Cols: cols})
		p.SetTerminal(func() (int, int) { return size.Load().Rows, size.Load().Cols })
		p.SetInput(func(_ context.Context, in jobs.Input) (jobs.Delivery, error) {
			size.Store(&in.Size)
			return jobs.Delivery{}, errors.New("no text was sent")
		})
		return waits("drawn")(ctx, p)
	}
}

// A job whose server was killed has the terminal that it had last, also once the next engine has accounted for
// it. A journal without sizes is read as one of jobs without terminals.
func TestTerminalOfAKilledServer(t *testing.T) {
	c := newConfig(t)
	first := newEngine(c)
	want := make(map[string]*jobs.Size)
	start := func(title string, run runFunc, size *jobs.Size) *jobs.Job {
		j := must.Get(first.Start(jobs.Spec{Kind: jobs.Shell, Title: title}, run))(t)
		t.Cleanup(func() { j.Stop(jobs.Stop{From: jobs.Kill}); <-j.Done() })
		must.Do(t, j.Log().Wait(t.Context(), 0))
		want[j.ID()] = size
		return j
	}
	start("piped", waits("printed"), nil)
	start("as it began", drawsOn(40, 120), &jobs.Size{Rows: 40, Cols: 120})
	resized := start("resized", drawsOn(40, 120), &jobs.Size{Rows: 50, Cols: 10})
	for _, size := range []jobs.Size{{Rows: 7, Cols: 7}, {Rows: 50, Cols: 10}} {
		if _, err := resized.Send(t.Context(), jobs.Input{Size: size}); err == nil {
			t.Error("the resize did not fail")
		}
	}
	dir := must.Get(first.Dir())(t)
	first.kill(t)

	check := func(when string) {
		t.Helper()
		e := newEngine(c)
		defer e.end()
		if got := len(e.List(jobs.Filter{})); got != len(want) {
			t.Errorf("%s: %d jobs are listed", when, got)
		}
		for _, record := range e.List(jobs.Filter{}) {
			got := must.Get(e.Get(record.ID))(t).Record()
			if !reflect.DeepEqual(record.Terminal, want[record.ID]) || !reflect.DeepEqual(got.Terminal, want[record.ID]) {
				t.Errorf("%s: %s has the terminal %v, in the list %v, want %v", when, record.Title, got.Terminal, record.Terminal, want[record.ID])
			}
			if got.Receipt.Text() != "failed (server was killed)" {
				t.Errorf("%s: %s is %s", when, record.Title, got.Receipt.Text())
			}
		}
	}
	check("killed")
	path := filepath.Join(dir, journalName)
	whole := must.Get(os.ReadFile(path))(t)

	settles := c
	settles.Kill = func(string) (left []process.Marked, err error) {
		for id := range want {
			left = append(left, process.Marked{Process: procfs.Process{PID: 812, Program: "top"}, Job: id})
		}
		return left, nil
	}
	second := newEngine(settles)
	second.Settle()
	second.Said()
	second.end()
	check("accounted for")

	lines := slices.DeleteFunc(bytes.SplitAfter(whole, []byte("\n")), func(line []byte) bool {
		event, _, _ := split(line)
		return event == resize
	})
	must.Do(t, os.WriteFile(path, bytes.Join(lines, nil), 0o600))
	for id := range want {
		want[id] = nil
	}
	check("of an older version")
}

// Nobody knows when a killed server ended: no end is made up for its jobs, wherever they are shown. Of the output
// on disk it is known when it was written. The record is kept as long as one that ended with the run's last line.
func TestEndOfAKilledServerIsUnknown(t *testing.T) {
	c := newConfig(t)
	first := newEngine(c)
	shows, silent := first.runs(t, jobs.Spec{Kind: jobs.Shell, Title: "shows"}, "begun"), first.runs(t, jobs.Spec{Kind: jobs.Shell, Title: "silent"}, "")
	must.Do(t, shows.Log().Wait(t.Context(), 0))
	text(shows) // a reply shows it
	dir := must.Get(first.Dir())(t)
	first.kill(t)
	output := filepath.Join(dir, shows.ID(), "output.log")
	written := must.Get(os.Stat(output))(t).ModTime()

	check := func(when string, last time.Time) {
		t.Helper()
		e := newEngine(c)
		defer e.end()
		seen := 0
		for _, record := range e.List(jobs.Filter{}) {
			want := time.Time{}
			if record.ID == shows.ID() {
				want = last
			}
			for _, got := range []jobs.Record{record, must.Get(e.Get(record.ID))(t).Record()} {
				if seen++; !got.Ended.IsZero() || !got.Output.Last.Equal(want) {
					t.Errorf("%s: %s ended %v and wrote last %v, want never and %v", when, got.Title, got.Ended, got.Output.Last, want)
				}
			}
		}
		if seen != 4 {
			t.Errorf("%s: %d records", when, seen)
		}
	}
	check("killed", written)
	settles := c
	settles.Kill = func(string) ([]process.Marked, error) {
		p := procfs.Process{PID: 812, Program: "npm"}
		return []process.Marked{{Process: p, Job: shows.ID()}, {Process: p, Job: silent.ID()}}, nil
	}
	second := newEngine(settles)
	second.Settle()
	second.end()
	check("accounted for", written)
	for _, wrong := range []time.Time{time.Unix(1<<33, 0), time.Unix(-1<<33, 0)} {
		must.Do(t, os.Chtimes(output, time.Time{}, wrong))
		check("with an output of "+wrong.String(), time.Time{})
	}
	old := time.Now().Add(-8 * 24 * time.Hour)
	must.Do(t, os.Chtimes(filepath.Join(dir, journalName), time.Time{}, old))
	journal := must.Get(os.ReadFile(filepath.Join(dir, journalName)))(t)
	lines := slices.DeleteFunc(bytes.SplitAfter(journal, []byte("\n")), func(line []byte) bool { event, _, _ := split(line); return event == amend })
	must.Do(t, errors.Join(os.WriteFile(filepath.Join(dir, journalName), bytes.Join(lines, nil), 0o600), os.Chtimes(filepath.Join(dir, journalName), time.Time{}, old)))
	late := newEngine(c)
	defer late.end()
	if got := late.titles(jobs.Filter{}); got != nil {
		t.Errorf("after eight days: %q", got)
	}
}

// What the shutdown of an engine does not live to see was stopped by it.
func TestShutdownThatWasCutOff(t *testing.T) {
	c := newConfig(t)
	first := newEngine(c)
	j := first.runs(t, jobs.Spec{Kind: jobs.Shell, Title: "runs"}, "")
	first.Closing()
	first.kill(t)
	second := newEngine(c)
	defer second.end()
	past := must.Get(second.Get(j.ID()))(t)
	if got := past.Record(); got.Receipt.Text() != "cancelled (stopped by shutdown)" || got.Status != jobs.Cancelled {
		t.Errorf("got %s, %q", got.Status, got.Receipt.Text())
	}
}

func TestAmendmentsAreRead(t *testing.T) {
	c := newConfig(t)
	first := newEngine(c)
	var port *jobs.Port
	j := first.do(t, "a", runFunc(func(ctx context.Context, p *jobs.Port) jobs.Outcome { port = p; return prints("hi")(ctx, p) }))
	port.AmendReceipt(func(r *jobs.Receipt) { r.Notes = append(r.Notes, "ended later") })
	first.end()
	second := newEngine(c)
	defer second.end()
	past := must.Get(second.Get(j.ID()))(t)
	if got := past.Record().Receipt.Notes; !slices.Equal(got, []string{"ended later"}) || text(past) != "hi" {
		t.Errorf("notes %q, output %q", got, text(past))
	}
}

// The code of a job is in the first of its lines only, and each record that is read has it.
func TestCodeIsWrittenOnce(t *testing.T) {
	c := newConfig(t)
	first := newEngine(c)
	var port *jobs.Port
	code := "print(1)\nprint(2)\n"
	j := first.runs(t, jobs.Spec{Kind: jobs.Python, Title: "print(1)", Code: code}, "")
	amended := must.Get(first.Start(jobs.Spec{Kind: jobs.Python, Title: "print(1)", Code: code}, runFunc(func(ctx context.Context, p *jobs.Port) jobs.Outcome {
		port = p
		return prints("hi")(ctx, p)
	})))(t)
	<-amended.Done()
	port.AmendReceipt(func(r *jobs.Receipt) { r.Notes = append(r.Notes, "ended later") })
	path := filepath.Join(must.Get(first.Dir())(t), journalName)
	first.end()
	if n := strings.Count(string(must.Get(os.ReadFile(path))(t)), `print(2)`); n != 2 {
		t.Errorf("the code of two jobs is written %d times", n)
	}
	second := newEngine(c)
	defer second.end()
	for _, id := range []string{j.ID(), amended.ID()} {
		if got := must.Get(second.Get(id))(t).Record(); got.Code != code || got.CodeBytes != len(code) {
			t.Errorf("got %q, %d bytes", got.Code, got.CodeBytes)
		}
	}
	for _, record := range second.List(jobs.Filter{}) {
		if record.Code != code {
			t.Errorf("in the list: %q", record.Code)
		}
	}
}

// A run of which the journal is cut anywhere, and has rubbish after the cut, shows each job whose
// line is complete.
func TestJournalCutAtEachByte(t *testing.T) {
	c := newConfig(t)
	first := newEngine(c)
	first.do(t, "short", prints("é\n"))
	first.do(t, "empty", prints(""))
	dir := must.Get(first.Dir())(t)
	first.end()
	path := filepath.Join(dir, journalName)
	whole := must.Get(os.ReadFile(path))(t)
	// The key is the length of the journal with the complete line.
	begun, ended := make(map[int]string), make(map[int]string)
	at := 0
	for b := range bytes.Lines(whole) {
		at += len(b)
		switch event, id, _ := split(b); event {
		case begin:
			begun[at-1] = id
		case end:
			ended[at-1] = id
		}
	}
	if len(begun) != 2 || len(ended) != 2 {
		t.Fatalf("%d starts and %d ends in\n%s", len(begun), len(ended), whole)
	}
	second := newEngine(c)
	defer second.end()
	newer := `{"event":"begin","id":"` + strings.Repeat("7", idLength) + `","record":{"version":99}}` + "\n"
	for name, rest := range map[string]string{"nothing": "", "zeros": strings.Repeat("\x00", 5000), "rubbish": "\x00\xff\"}{garbage\n\n", "newer": "\n" + newer + `{"event":"molt","id":"x"}`} {
		for cut := range len(whole) + 1 {
			must.Do(t, os.WriteFile(path, append(bytes.Clone(whole[:cut]), rest...), 0o600))
			want := make(map[string]jobs.Status)
			for at, id := range begun {
				if at <= cut {
					want[id] = jobs.Failed
				}
			}
			for at, id := range ended {
				if at <= cut {
					want[id] = jobs.Completed
				}
			}
			got := second.List(jobs.Filter{})
			for _, record := range got {
				if want[record.ID] != record.Status {
					t.Fatalf("%s after %d bytes: %s is %s, want %q", name, cut, record.ID, record.Status, want[record.ID])
				}
			}
			if len(got) != len(want) {
				t.Fatalf("%s after %d bytes: %d jobs, want %d", name, cut, len(got), len(want))
			}
		}
	}
}

func TestTwoEnginesShareNoRun(t *testing.T) {
	c := newConfig(t)
	a, b := newEngine(c), newEngine(c)
	ja := a.do(t, "a", prints("1"))
	awaitNextMillisecond() // ids of one millisecond have no order
	jb := b.do(t, "b", prints("2"))
	if one, other := must.Get(a.Dir())(t), must.Get(b.Dir())(t); one == other {
		t.Errorf("both have %s", one)
	}
	if a.titles(jobs.Filter{})[0] != "a" || len(a.titles(jobs.Filter{})) != 1 {
		t.Errorf("a lists %q", a.titles(jobs.Filter{}))
	}
	a.end()
	if got := b.titles(jobs.Filter{}); !slices.Equal(got, []string{"b", "a"}) {
		t.Errorf("b lists %q", got)
	}
	b.end()
	third := newEngine(c)
	defer third.end()
	if got := third.List(jobs.Filter{}); len(got) != 2 || got[0].ID != jb.ID() || got[1].ID != ja.ID() {
		t.Errorf("got %q", third.titles(jobs.Filter{}))
	}
}

// Engines that ran at the same time have jobs that are newest in turn.
func TestJobsOfSeveralRunsInOrder(t *testing.T) {
	c := newConfig(t)
	engines := []engine{newEngine(c), newEngine(c), newEngine(c)}
	var want []string
	for i := range 30 {
		want = append(want, engines[i*7%3].do(t, fmt.Sprint(i), prints("")).ID())
		awaitNextMillisecond()
	}
	slices.Reverse(want)
	for _, e := range engines {
		e.end()
	}
	last := newEngine(c)
	defer last.end()
	var got []string
	for record := range last.All(jobs.Filter{}) {
		got = append(got, record.ID)
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%q, want\n%q", got, want)
	}
}

// awaitNextMillisecond returns when an id has a later time.
func awaitNextMillisecond() {
	for now := ulid.Now(); ulid.Now() == now; {
	}
}

func TestARunWithoutAJobLeavesNothing(t *testing.T) {
	c := newConfig(t)
	e := newEngine(c)
	if _, err := os.Stat(c.State); err == nil {
		t.Error("the directory was made before it was needed")
	}
	dir := must.Get(e.Dir())(t)
	e.end()
	if _, err := os.Stat(dir); err == nil {
		t.Error("the directory is left")
	}
}

func TestModes(t *testing.T) {
	c := newConfig(t)
	e := newEngine(c)
	e.do(t, "a", prints(strings.Repeat("x", 10_000)))
	e.end()
	seen := 0
	must.Do(t, filepath.Walk(c.State, func(path string, st os.FileInfo, err error) error {
		want := os.FileMode(0o600)
		if st.IsDir() {
			want = 0o700
		}
		seen++
		if st.Mode().Perm() != want {
			t.Errorf("%s has mode %v", path, st.Mode())
		}
		return err
	}))
	if seen < 6 {
		t.Errorf("%d files", seen)
	}
}

// A disk that is full makes files, and takes none of the bytes that were flushed to them. The line of
// the job's end has these.
func TestEmptyFileOfAFullDisk(t *testing.T) {
	c := newConfig(t)
	first := newEngine(c)
	j := first.do(t, "short", prints("hello"))
	dir := filepath.Join(must.Get(first.Dir())(t), j.ID())
	must.Do(t, os.MkdirAll(dir, 0o700))
	for _, name := range []string{"output.log", "output.streams"} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	first.end()
	second := newEngine(c)
	defer second.end()
	if got := text(must.Get(second.Get(j.ID()))(t)); got != "hello" {
		t.Errorf("output %q", got)
	}
}

// Displays, and late output that a reply has shown, are read, too.
func TestWhatIsBesideTheOutput(t *testing.T) {
	c := newConfig(t)
	first := newEngine(c)
	var port *jobs.Port
	picture := bytes.Repeat([]byte("png"), 100_000)
	j := first.do(t, "a", runFunc(func(ctx context.Context, p *jobs.Port) jobs.Outcome {
		port = p
		p.Begin()
		p.Write(output.Stdout, []byte("first\n"))
		shown := jobs.Display{Title: "figure 1", Picture: true, Forms: []jobs.Form{{MIME: "image/png"}}}
		p.Display(shown, [][]byte{picture}, func(int) string { return "[figure 1]" })
		return jobs.Outcome{Receipt: jobs.Receipt{End: jobs.Exited}}
	}))
	port.Write(output.Stdout, []byte("late\n"))
	port.Display(jobs.Display{Title: "late figure", Forms: []jobs.Form{{MIME: "text/plain"}}}, [][]byte{[]byte("data")}, nil)
	want := text(j) // a reply shows it
	first.kill(t)
	second := newEngine(c)
	defer second.end()
	past := must.Get(second.Get(j.ID()))(t)
	if got := text(past); got != want || want != "first\n[figure 1]\nlate\n" {
		t.Errorf("the output is %q, was %q", got, want)
	}
	if st := past.Record().Output; st.End-st.Final != int64(len("late\n")) {
		t.Errorf("late are %d bytes", st.End-st.Final)
	}
	shown := past.Displays()
	if len(shown) != 2 || shown[0].Title != "figure 1" || past.Numbered() != 2 || shown[0].Line != j.Displays()[0].Line {
		t.Fatalf("shown are %+v", shown)
	}
	for i, want := range [][]byte{picture, []byte("data")} {
		if got := must.Get(past.Data(shown[i].Forms[0]))(t); !bytes.Equal(got, want) {
			t.Errorf("display %d has %d bytes, want %d", i, len(got), len(want))
		}
	}
}

// If the state directory is removed under an engine, it is made again for the next job.
func TestStateDirectoryIsRemoved(t *testing.T) {
	c := newConfig(t)
	first := newEngine(c)
	first.do(t, "gone", prints("1"))
	late := first.runs(t, jobs.Spec{Kind: jobs.Shell, Title: "ends later"}, "")
	must.Do(t, os.RemoveAll(c.State))
	first.do(t, "kept", prints(strings.Repeat("x", 10_000)))
	late.Stop(jobs.Stop{By: jobs.Agent})
	<-late.Done()
	first.end()
	second := newEngine(c)
	defer second.end()
	if got := second.titles(jobs.Filter{}); !slices.Equal(got, []string{"kept", "ends later"}) {
		t.Errorf("listed %q", got)
	}
	if kept := must.Get(second.Get(second.List(jobs.Filter{Limit: 1})[0].ID))(t); len(text(kept)) != 10_000 {
		t.Errorf("%d bytes of output are there", len(text(kept)))
	}
}

// While records pause, only the first failure is returned.
func TestFailureIsReturnedOnce(t *testing.T) {
	c := newConfig(t)
	must.Do(t, os.WriteFile(c.State, nil, 0o600))
	open := Open(configIn(t.TempDir(), c.Workspace))
	defer open.Close()
	must.Do(t, os.Chmod(open.config.State, 0o777))
	if first := open.Begin(record("01K9ZC3V7Q0W6N8X2M4B5D7F9H")); first == nil || open.Begin(record("01K9ZC3V7Q0W6N8X2M4B5D7F9H")) != nil {
		t.Errorf("a reason in words is %v, and returned again", first)
	}
	s := Open(c)
	defer s.Close()
	r := record("01K9ZC3V7Q0W6N8X2M4B5D7F9H")
	if s.Begin(r) == nil || s.End(jobs.Saved{Record: r}) != nil || s.Begin(r) != nil || s.Status().Failure == nil {
		t.Errorf("not once, and now %v", s.Status().Failure)
	}
	must.Do(t, os.Remove(c.State))
	if err := s.Begin(r); err != nil || s.Status().Failure != nil {
		t.Errorf("with a directory: %v, %v", err, s.Status().Failure)
	}
}

// A dirAsker asks for the directory of the run at each line of a log, as a log does that is in it.
type dirAsker struct {
	*Store
	lines int
}

func (d *dirAsker) Write(line []byte) (int, error) {
	d.lines++
	d.Dir() // an error: the run has ended
	return len(line), nil
}

func TestFailureAtTheEndIsLogged(t *testing.T) {
	c := newConfig(t)
	var log dirAsker
	c.Log = slog.New(slog.NewTextHandler(&log, nil))
	e := newEngine(c)
	log.Store = e.Store
	e.do(t, "a", prints(""))
	must.Do(t, e.run.journal.file.Close())
	e.end()
	if log.lines != 1 {
		t.Errorf("%d lines are logged", log.lines)
	}
}
