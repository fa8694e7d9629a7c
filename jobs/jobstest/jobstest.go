// Package jobstest runs jobs in tests: real runners in a real registry. Each wait is for a fact and
// is bounded by [Patience].
package jobstest

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/oklog/ulid/v2"

	"asyncrepl/internal/output"
	"asyncrepl/internal/test/polltest"
	"asyncrepl/jobs"
)

// Patience bounds every wait. A test that reaches it fails.
const Patience = polltest.Patience

// Registry returns a registry that is closed with the test. Each record that it saves must read back
// from its JSON as it was.
func Registry(t testing.TB) *jobs.Registry {
	t.Helper()
	dir := t.TempDir()
	store := output.NewStore(output.Config{Cap: 1 << 30, Dir: func() (string, error) { return dir, nil }})
	r := jobs.NewRegistry(jobs.Config{Logs: store, Store: readsBack{t}})
	t.Cleanup(func() { r.Close(jobs.Stop{By: jobs.Shutdown, From: jobs.Kill}) })
	return r
}

// readsBack is a store that keeps nothing. It reads each record back from its JSON.
type readsBack struct{ t testing.TB }

func (s readsBack) Begin(r jobs.Record) error {
	if err := ReadsBack(r); err != nil {
		s.t.Error(err)
	}
	return nil
}

func (readsBack) Resize(string, jobs.Size) error { return nil }
func (s readsBack) End(saved jobs.Saved) error   { return s.Begin(saved.Record) }
func (s readsBack) Amend(saved jobs.Saved) error { return s.Begin(saved.Record) }
func (readsBack) Forget(string) error            { return nil }
func (readsBack) Past(string) iter.Seq[jobs.Past] {
	return func(func(jobs.Past) bool) {}
}

// ReadsBack returns how a record differs from the one that its JSON reads back as, or nil.
func ReadsBack(r jobs.Record) error {
	var back jobs.Record
	b, err := json.Marshal(r)
	if err == nil {
		err = json.Unmarshal(b, &back)
	}
	if err != nil {
		return err
	}
	equal := cmp.Options{cmpopts.EquateEmpty(), cmpopts.IgnoreUnexported(jobs.Stop{})}
	if d := cmp.Diff(r, back, equal); d != "" {
		return fmt.Errorf("a record reads back otherwise (-written +read): %s\n%s", d, b)
	}
	return nil
}

// Start starts a job.
func Start(t testing.TB, r *jobs.Registry, spec jobs.Spec, run jobs.Runner) *jobs.Job {
	t.Helper()
	j, err := r.Start(spec, run)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// End waits for the end of a job and returns its last state.
func End(t testing.TB, j *jobs.Job) jobs.Record {
	t.Helper()
	select {
	case <-j.Done():
		return j.Record()
	case <-time.After(Patience):
		t.Fatalf("job %s has not ended: %+v\noutput: %q", j.ID(), j.Record(), Output(j))
		panic("unreachable")
	}
}

// EndsAs waits for the end of a job and compares the text of its status.
func EndsAs(t testing.TB, j *jobs.Job, status string) jobs.Record {
	t.Helper()
	record := End(t, j)
	if got := record.Receipt.Text(); got != status {
		t.Errorf("job %s: status %q, want %q; output %.2000q", j.ID(), got, status, Output(j))
	}
	return record
}

// Asks waits until a job waits for input and returns its question. A job that ends instead fails
// the test.
func Asks(t testing.TB, j *jobs.Job) jobs.Question {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	if err := j.Await(ctx); err != nil {
		t.Fatalf("job %s neither asks nor ends: %v; %+v\noutput: %q", j.ID(), err, j.Record(), Output(j))
	}
	record := j.Record()
	if record.Status != jobs.WaitingInput || record.Question == nil {
		t.Fatalf("job %s does not ask: %s\noutput: %q", j.ID(), record.Status, Output(j))
	}
	return *record.Question
}

// Send sends input to a job.
func Send(t testing.TB, j *jobs.Job, in jobs.Input) jobs.Delivery {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	d, err := j.Send(ctx, in)
	if err != nil {
		t.Fatalf("sending to job %s: %v", j.ID(), err)
	}
	return d
}

// Prints waits until the output of a job holds text. A job that ends without it fails the test.
func Prints(t testing.TB, j *jobs.Job, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	for {
		stat := j.Log().Stat()
		if strings.Contains(Output(j), text) {
			return
		}
		err := j.Log().Wait(ctx, stat.End)
		if err != nil || stat.Final >= 0 {
			t.Fatalf("job %s has not printed %q: %v; %+v\noutput: %q", j.ID(), text, err, j.Record(), Output(j))
		}
	}
}

// PrintsLate waits until the output of an ended job holds text. The log notifies no reader of late
// output, so it polls.
func PrintsLate(t testing.TB, j *jobs.Job, text string) {
	t.Helper()
	polltest.Check(t, func() error {
		if strings.Contains(Output(j), text) {
			return nil
		}
		return fmt.Errorf("job %s has not printed %q: %+v\noutput: %q", j.ID(), text, j.Record(), Output(j))
	})
}

// Output returns all output of a job except its result, in order of arrival.
func Output(j *jobs.Job) string {
	return Stream(j, output.Stdout, output.Stderr, output.TTY, output.Display)
}

// Stream returns the output of a job on some of its streams.
func Stream(j *jobs.Job, streams ...output.Stream) string {
	var b strings.Builder
	for cursor := int64(0); ; {
		_, chunk := j.Read(cursor, 1<<20)
		for _, span := range chunk.Spans {
			for _, s := range streams {
				if span.Stream == s {
					b.Write(span.Data)
				}
			}
		}
		if chunk.Next == cursor {
			return b.String()
		}
		cursor = chunk.Next
	}
}

// ID returns an id that a registry could have issued at a time.
func ID(at time.Time) string { return ulid.MustNew(ulid.Timestamp(at), rand.Reader).String() }
