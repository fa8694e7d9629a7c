package worker

import (
	"context"
	"errors"
	"os/exec"
	"sync"
	"testing"
	"time"

	"asyncrepl/internal/test/polltest"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// A flooded job closes its pipes while a process writes to them.
type flooded struct{ t *testing.T }

func (f flooded) Run(_ context.Context, p *jobs.Port) jobs.Outcome {
	p.Begin()
	if err := closeInFlood(p); err != nil {
		f.t.Error(err)
	}
	return jobs.Outcome{Receipt: jobs.Receipt{End: jobs.Returned}}
}

func closeInFlood(p *jobs.Port) error {
	seen := make(chan struct{})
	w := &Worker{port: p, kick: sync.OnceFunc(func() { close(seen) })}
	pipes, err := newJobPipes()
	if err != nil {
		return err
	}
	w.read(p, pipes)
	yes := exec.Command("yes")
	yes.Stdout = pipes.out.w
	err = yes.Start()
	pipes.closeWriters()
	if err != nil {
		return err
	}
	defer func() { yes.Process.Kill(); yes.Wait() }()
	<-seen
	pumps := w.pumps
	closed := make(chan struct{})
	go func() { // ends with closePipes
		defer close(closed)
		w.closePipes()
	}()
	select {
	case <-closed:
	case <-time.After(jobstest.Patience / 2): // before the test gives the job up
		return errors.New("the pipes can't be closed")
	}
	for _, pump := range pumps {
		<-pump.Done()
	}
	return nil
}

// The pipes of a job can be closed while a process that outlives the job writes to them.
func TestClosePumpsInFlood(t *testing.T) {
	if testing.Short() {
		t.Skip("floods")
	}
	r := jobstest.Registry(t)
	for range 100 {
		jobstest.End(t, jobstest.Start(t, r, jobs.Spec{Kind: jobs.Python}, flooded{t}))
		if t.Failed() {
			return
		}
	}
}

// A report of an interrupt counts as soon as it is read, although its receiver is busy. Otherwise a
// child that the code starts to clean up is interrupted on a busy machine.
func TestReportOfAnInterruptCountsWhenItIsRead(t *testing.T) {
	ch, theirs, err := newChannel()
	if err != nil {
		t.Fatal(err)
	}
	w := &Worker{ch: ch, events: make(chan Event), eof: make(chan struct{}), ending: make(chan struct{})}
	go w.listen() // ends with the channel, below
	if _, err := theirs.WriteString(string(ch.token) + " raised {}\n"); err != nil {
		t.Fatal(err)
	}
	polltest.Until(t, "the report is read", func() bool { return w.Raised() == 1 })
	if _, ok := (<-w.events).(RaisedEvent); !ok {
		t.Error("the event is not handed on")
	}
	theirs.Close()
	<-w.eof
	ch.close()
}
