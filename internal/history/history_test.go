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
	"slices"
	"strings"
	"testing"

	"github.com/oklog/ulid/v2"

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
