package jobs_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"asyncrepl/internal/output"
	"asyncrepl/internal/test/must"
	"asyncrepl/jobs"
)

// A slow store takes its time for an end.
type slow struct {
	jobs.Store               // nil: no job is looked up in it
	ending     chan struct{} // receives when an end is being saved
	seen       chan struct{} // closed when a reader has seen what it must not see
	saved      atomic.Bool
}

func (s *slow) Begin(jobs.Record) error        { return nil }
func (s *slow) Resize(string, jobs.Size) error { return nil }
func (s *slow) Forget(string) error            { return nil }
func (s *slow) Amend(jobs.Saved) error         { return nil }
func (s *slow) End(saved jobs.Saved) error {
	s.ending <- struct{}{}
	select {
	case <-s.seen:
	case <-time.After(50 * time.Millisecond): // a reader that does not wait needs less
	}
	s.saved.Store(true)
	return nil
}

// A journal is a store that lists what it is given.
type journal struct {
	jobs.Store // nil: no job is looked up in it
	mu         sync.Mutex
	lines      []string
}

func (s *journal) add(format string, args ...any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, fmt.Sprintf(format, args...))
	return nil
}

func (s *journal) Begin(r jobs.Record) error              { return s.add("begin %v", r.Terminal) }
func (s *journal) Resize(id string, size jobs.Size) error { return s.add("resize %v", size) }
func (s *journal) End(saved jobs.Saved) error             { return s.add("end %v", *saved.Record.Terminal) }

// A resizable runner is on a terminal that clients can resize, until ends is closed.
type resizable struct{ begun, ends chan struct{} }

func (r resizable) Run(_ context.Context, p *jobs.Port) jobs.Outcome {
	var size atomic.Value
	size.Store(jobs.Size{Rows: 40, Cols: 120})
	p.SetTerminal(func() (rows, cols int) { s := size.Load().(jobs.Size); return s.Rows, s.Cols })
	p.SetInput(func(_ context.Context, in jobs.Input) (jobs.Delivery, error) {
		if in.Size != (jobs.Size{}) {
			size.Store(in.Size)
		}
		return jobs.Delivery{}, nil
	})
	p.Begin()
	close(r.begun)
	<-r.ends
	return jobs.Outcome{Receipt: jobs.Receipt{End: jobs.Exited}}
}

// The store is given the size of a terminal at its start, and whenever a client has changed it while the job
// runs.
func TestSizeOfATerminalIsSaved(t *testing.T) {
	t.Parallel()
	s, run := new(journal), resizable{make(chan struct{}), make(chan struct{})}
	j := must.Get(jobs.NewRegistry(jobs.Config{Store: s}).Start(jobs.Spec{Kind: jobs.Shell}, run))(t)
	<-run.begun
	for _, in := range []jobs.Input{{Text: "x"}, {Size: jobs.Size{Rows: 50, Cols: 10}}, {Signal: "USR1"}} {
		must.Get(j.Send(t.Context(), in))(t)
	}
	close(run.ends)
	<-j.Done()
	j.Send(t.Context(), jobs.Input{Size: jobs.Size{Rows: 1, Cols: 1}}) // an error: the job has ended
	want := []string{"begin <nil>", "resize {40 120}", "resize {50 10}", "end {50 10}"}
	if d := cmp.Diff(want, s.lines); d != "" {
		t.Errorf("-want +got: %s", d)
	}
}

type printing struct{}

func (printing) Run(_ context.Context, p *jobs.Port) jobs.Outcome {
	p.Begin()
	p.Write(output.Stdout, []byte("shown"))
	return jobs.Outcome{Receipt: jobs.Receipt{End: jobs.Returned}}
}

// While the end of a job is being saved, a kill of the server would undo it. No reader sees the end
// then, and output that one sees is on disk.
func TestEndIsSeenOnceItIsSaved(t *testing.T) {
	for name, read := range map[string]func(output.Reader) output.Chunk{
		"Read":     func(l output.Reader) output.Chunk { return l.Read(0, 100) },
		"ReadInto": func(l output.Reader) output.Chunk { return l.ReadInto(0, make([]byte, 100)) },
	} {
		t.Run(name, func(t *testing.T) { endIsSeenOnceItIsSaved(t, read) })
	}
}

func endIsSeenOnceItIsSaved(t *testing.T, read func(output.Reader) output.Chunk) {
	dir := t.TempDir()
	logs := output.NewStore(output.Config{Cap: 1 << 20, Dir: func() (string, error) { return dir, nil }})
	s := &slow{ending: make(chan struct{}), seen: make(chan struct{})}
	r := jobs.NewRegistry(jobs.Config{Logs: logs, Store: s})
	defer r.Close(jobs.Stop{By: jobs.Shutdown, From: jobs.Kill})
	j := must.Get(r.Start(jobs.Spec{Kind: jobs.Python}, printing{}))(t)
	<-s.ending
	shown := read(j.Log())
	files := must.Get(os.OpenRoot(filepath.Join(dir, j.ID())))(t)
	defer files.Close()
	onDisk := output.OpenPast(files.Open, output.Stat{Final: -1}, nil).Read(0, 100)
	if !cmp.Equal(shown.Spans, onDisk.Spans) || len(shown.Spans) != 1 {
		t.Errorf("shown is %+v, and on disk are %+v", shown, onDisk)
	}
	if record := j.Record(); record.Status.Final() && !s.saved.Load() {
		close(s.seen)
		t.Errorf("it is %s before that is saved", record.Status)
	}
	<-j.Done()
}
