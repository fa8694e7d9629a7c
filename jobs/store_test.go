package jobs_test

import (
	"context"
	"path/filepath"
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

func (s *slow) Begin(jobs.Record) error { return nil }
func (s *slow) Forget(string) error     { return nil }
func (s *slow) Amend(jobs.Saved) error  { return nil }
func (s *slow) End(saved jobs.Saved) error {
	s.ending <- struct{}{}
	select {
	case <-s.seen:
	case <-time.After(50 * time.Millisecond): // a reader that does not wait needs less
	}
	s.saved.Store(true)
	return nil
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
	onDisk := output.OpenPast(filepath.Join(dir, j.ID()), output.Stat{Final: -1}, nil).Read(0, 100)
	if !cmp.Equal(shown.Spans, onDisk.Spans) || len(shown.Spans) != 1 {
		t.Errorf("shown is %+v, and on disk are %+v", shown, onDisk)
	}
	if record := j.Record(); record.Status.Final() && !s.saved.Load() {
		close(s.seen)
		t.Errorf("it is %s before that is saved", record.Status)
	}
	<-j.Done()
}
