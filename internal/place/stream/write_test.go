package stream

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"

	"asyncrepl/internal/output"
	"asyncrepl/internal/test/must"
	"asyncrepl/jobs"
	"asyncrepl/jobs/display"
	"asyncrepl/jobs/jobstest"
)

// held is a runner that lets a test use its port.
type held chan *jobs.Port

func (h held) Run(ctx context.Context, p *jobs.Port) jobs.Outcome {
	p.Begin()
	h <- p
	<-ctx.Done()
	return jobs.Outcome{Receipt: jobs.Receipt{End: jobs.NotRun, Stop: p.Stop()}}
}

// A job that shows and replaces is no engine that fills a disk, however often it does so within a round.
func TestReplacedDisplaysDoNotCount(t *testing.T) {
	ports := make(held, 1)
	j := jobstest.Start(t, jobstest.Registry(t), jobs.Spec{Kind: jobs.Shell}, ports)
	p := <-ports
	sink := display.NewSink(p)
	var b bytes.Buffer
	w := &writer{job: j, buffers: &buffers{out: bufio.NewWriter(&b)}}
	for range 3 {
		for range maxDisplays / 2 {
			sink.Add("figure", "", []display.Form{{MIME: "text/html", Data: []byte("x")}})
		}
		must.Do(t, w.output())
		p.Clear(false)
	}
	must.Do(t, w.out.Flush())
	shown := 0
	fs, err := all(NewReader(&b, j.ID(), Position{}))
	for _, f := range fs {
		if f.Display != nil {
			shown++
		}
	}
	if shown != maxDisplays*3/2 || err != io.ErrUnexpectedEOF {
		t.Errorf("%d displays, %v", shown, err)
	}
}

// The causes of all gaps add up to those of the log, wherever a reader begins.
func TestCausesOfGaps(t *testing.T) {
	s := output.Stat{
		End: 100, Gaps: []output.Range{{From: 10, To: 30}, {From: 40, To: 50}, {From: 60, To: 65}},
		Loss: output.Loss{Cap: 15, Disk: 10, Limit: 5},
	}
	for _, c := range []struct {
		from, to int64
		want     output.Loss
	}{
		{10, 30, output.Loss{Cap: 15, Disk: 5}},
		{20, 30, output.Loss{Cap: 5, Disk: 5}},
		{40, 50, output.Loss{Disk: 5, Limit: 5}},
		{60, 65, output.Loss{}}, // it was discarded
	} {
		if d := cmp.Diff(c.want, causes(s, c.from, c.to)); d != "" {
			t.Errorf("%d..%d: %s", c.from, c.to, d)
		}
	}
}

// A link that is lost in a large output ends the writing of it.
func TestWritingEndsWithTheLink(t *testing.T) {
	ports := make(held, 1)
	j := jobstest.Start(t, jobstest.Registry(t), jobs.Spec{Kind: jobs.Shell}, ports)
	(<-ports).Write(output.Stdout, make([]byte, 4<<20))
	lost := errors.New("lost")
	w := &writer{job: j, buffers: &buffers{out: bufio.NewWriterSize(broken{lost}, writeSize)}}
	if err := w.news(); err != lost || w.cursor > 1<<20 {
		t.Errorf("%v, after %d bytes", err, w.cursor)
	}
}

type broken struct{ err error }

func (b broken) Write([]byte) (int, error) { return 0, b.err }
