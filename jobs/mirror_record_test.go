package jobs_test

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"asyncrepl/internal/output"
	"asyncrepl/internal/test/must"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// mirrors hands its port over and ends as it is told.
type mirrors struct {
	port chan *jobs.Port
	out  chan jobs.Outcome
}

func (m mirrors) Run(ctx context.Context, p *jobs.Port) jobs.Outcome {
	m.port <- p
	select {
	case out := <-m.out:
		return out
	case <-ctx.Done(): // the test has failed
		return jobs.Outcome{Receipt: jobs.Receipt{End: jobs.PlaceLost}}
	}
}

// mirrored starts a job at a place. Its id is a day old.
func mirrored(t testing.TB, r *jobs.Registry, spec jobs.Spec) (*jobs.Job, *jobs.Port, chan<- jobs.Outcome) {
	t.Helper()
	spec.Place = "gpu"
	m := mirrors{make(chan *jobs.Port), make(chan jobs.Outcome)}
	j := must.Get(r.StartAs(jobstest.ID(time.Now().Add(-24*time.Hour)), spec, m))(t)
	return j, <-m.port, m.out
}

// Where each field of the record of a job at a place comes from, in each stage. A field that is in no list fails
// the test: its author decides.
var sources = map[string]struct{ running, asking, ended string }{
	"Version": {"here", "here", "here"}, "ID": {"here", "here", "here"}, "Spec": {"here", "here", "here"}, "Output": {"here", "here", "here"},
	"Status": {"there", "there", "there"}, "Asked": {"there", "there", "there"}, "Answered": {"there", "there", "there"},
	"Denied": {"there", "there", "there"}, "PID": {"there", "there", "there"}, "Terminal": {"there", "there", "there"},
	"Created": {"there", "there", "there"}, "Started": {"there", "there", "there"}, "Cleared": {"there", "there", "there"},
	"Question": {"none", "there", "none"}, "Accepts": {"there", "none", "none"}, "Stopped": {"there", "none", "none"},
	"Cancelling": {"there", "there", "none"}, "Listening": {"there", "there", "none"},
	"Receipt": {"none", "none", "there"}, "HasResult": {"none", "none", "there"}, "Result": {"none", "none", "there"},
	"ResultChars": {"none", "none", "there"}, "Where": {"none", "none", "here"}, "Ended": {"none", "none", "there"}, "Unknown": {"none", "none", "none"},
}

// Every field of a record is mirrored, or deliberately not.
func TestMirrorTakesEveryField(t *testing.T) {
	j, port, out := mirrored(t, jobstest.Registry(t), jobs.Spec{Kind: jobs.Shell, Title: "make"})
	port.Write(output.Stdout, make([]byte, 100))
	var far jobs.Record
	fill(reflect.ValueOf(&far).Elem(), "Record")
	now := time.Now().Truncate(time.Millisecond) // as a JSON has it, or less
	far.Created, far.Started, far.Answered, far.Accepts.Since, far.Ended = now.Add(-5*time.Hour), now.Add(-4*time.Hour), now.Add(-3*time.Hour), now.Add(-2*time.Hour), now.Add(-time.Hour)
	far.Cancelling, far.Output.End = jobs.Terminate, int64(far.Cleared)+50
	far.Receipt = jobs.Receipt{}
	far.Unknown = map[string]json.RawMessage{"new": json.RawMessage("1")}
	here := j.Record()
	check := func(source func(name string) string) {
		t.Helper()
		got := reflect.ValueOf(j.Record())
		for i := range got.NumField() {
			name := got.Type().Field(i).Name
			want := reflect.Zero(got.Field(i).Type())
			switch source(name) {
			case "here":
				want = reflect.ValueOf(here).Field(i)
			case "there":
				want = reflect.ValueOf(far).Field(i)
			case "none":
			default:
				t.Errorf("where does the field %s of the record of a job at a place come from?", name)
			}
			if d := cmp.Diff(want.Interface(), got.Field(i).Interface(), cmpopts.EquateEmpty(), cmpopts.IgnoreUnexported(jobs.Stop{})); d != "" {
				t.Errorf("%s of a job that is %s: %s", name, far.Status, d)
			}
		}
	}
	question := far.Question
	far.Status, far.Question = jobs.Running, nil
	must.Do(t, port.Mirror(far))
	check(func(name string) string { return sources[name].running })
	far.Status, far.Question = jobs.WaitingInput, question
	must.Do(t, port.Mirror(far))
	check(func(name string) string { return sources[name].asking })

	fill(reflect.ValueOf(&far.Receipt).Elem(), "Receipt")
	far.Receipt.End, far.Receipt.Stop.By, far.Receipt.LostOutput = jobs.Exited, jobs.Agent, output.Loss{}
	far.Status, far.Question = jobs.Cancelled, nil
	end := far // what the registry changes of it must not matter
	end.Receipt.Unknown = map[string]json.RawMessage{"new": json.RawMessage("1")}
	out <- jobs.Outcome{Far: &end, Where: "node n2"}
	<-j.Done()
	here.Output.Final, here.Where = 100, "node n2"
	check(func(name string) string { return sources[name].ended })
}

// FuzzMirror makes a job what its input says: records of a place, one a line. Whatever they say, nothing panics, the
// status follows the table, the record reads back from its JSON, and other jobs don't notice.
func FuzzMirror(f *testing.F) {
	f.Add(`{"status":"running","reader":{"kind":"line","since":"2026-01-01T00:00:00Z"}}
{"status":"waiting_input","question":{"kind":"line"},"asked":1,"cleared":5,"output":{"cursor":9}}
{"status":"queued"}
{"status":"completed","receipt":{"end":"returned"},"ended":"9999-12-31T23:59:59Z"}`)
	f.Add(`{"status":"running","terminal":{"rows":-1},"pid":-5,"cancelling":"kill"}
{"status":"failed","receipt":{"end":"exited","exit_code":1,"stop":{"by":"timeout"}},"result":"x","result_chars":-9}`)
	f.Add(`{"status":"cancelled","receipt":{"stop":{"by":"agent","step_ns":-1},"rungs":["up","kill"],"limit_ns":-1},"started":"0001-01-02T00:00:00Z"}`)
	r := jobstest.Registry(f)
	f.Fuzz(func(t *testing.T, lines string) {
		j, port, out := mirrored(t, r, jobs.Spec{Kind: jobs.Python, Title: "x"})
		var last jobs.Record
		for line := range strings.Lines(lines) {
			last = jobs.Record{}
			if json.Unmarshal([]byte(line), &last) != nil {
				continue
			}
			before := j.Record()
			err := port.Mirror(last)
			after := j.Record()
			switch {
			case err != nil && !cmp.Equal(before, after, cmpopts.EquateEmpty()):
				t.Errorf("%v, and it has changed: %s", err, cmp.Diff(before, after))
			case after.Status.Final() || err == nil && after.Status != last.Status:
				t.Errorf("%s was mirrored as %s", last.Status, after.Status)
			}
			checkMirrored(t, j, after)
		}
		out <- jobs.Outcome{Far: &last}
		<-j.Done()
		record := j.Record()
		checkMirrored(t, j, record)
		if !record.Status.Final() || record.Status != record.Receipt.Status() || record.Ended.Before(record.Started) || record.Receipt.By == "" {
			t.Errorf("ended as %+v", record)
		}
	})
}

// checkMirrored fails the test if the record can't be.
func checkMirrored(t *testing.T, j *jobs.Job, r jobs.Record) {
	t.Helper()
	if err := jobstest.ReadsBack(r); err != nil {
		t.Error(err)
	}
	now := time.Now()
	for _, at := range []time.Time{r.Created, r.Started, r.Ended, r.Answered, r.Accepts.Since} {
		if at.After(now) || !at.IsZero() && now.Sub(at) > 25*time.Hour {
			t.Errorf("it is %v, and a time is %v", now, at)
		}
	}
	if r.ID != j.ID() || r.Title != "x" || r.Place != "gpu" || (r.Status == jobs.WaitingInput) != (r.Question != nil) || r.Created.IsZero() ||
		(r.Status == jobs.Running && r.Started.IsZero()) || r.Cleared > r.Output.End {
		t.Errorf("%+v", r)
	}
	_ = fmt.Sprint(r.Receipt.Text(), j.Displays())
}
