package resource

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"asyncrepl/internal/output"
	"asyncrepl/internal/test/readmetest"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// A printer writes to stdout, shows something and has a result.
type printer struct{ port chan *jobs.Port }

func (p printer) Run(_ context.Context, port *jobs.Port) jobs.Outcome {
	port.Begin()
	port.Write(output.Stdout, []byte("hello\n"))
	port.Display(jobs.Display{}, nil, func(n int) string { return fmt.Sprintf("[%d]", n) })
	p.port <- port
	return jobs.Outcome{Receipt: jobs.Receipt{End: jobs.Returned}, Result: "[1, 2]", HasResult: true}
}

// The raw view has a part for each run of a stream: the line of a display, the result and late
// output are parts of their own.
func TestRawOutputHasAPartForEachRun(t *testing.T) {
	p := printer{make(chan *jobs.Port, 1)} // room for the one port
	j := jobstest.Start(t, jobstest.Registry(t), jobs.Spec{Kind: jobs.Python}, p)
	jobstest.End(t, j)
	(<-p.port).Write(output.Stdout, []byte("late\n"))
	var got []string
	for _, part := range outputParts(j, 0, true) {
		got = append(got, part.rng.Stream+": "+string(part.data))
	}
	if want := "stdout: hello\n|display: [1]\n|result: [1, 2]|stdout: late\n"; strings.Join(got, "|") != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The text view begins after what the job has replaced; the raw view has it.
func TestTextOfAResourceHasTheLastState(t *testing.T) {
	p := printer{make(chan *jobs.Port, 1)}
	j := jobstest.Start(t, jobstest.Registry(t), jobs.Spec{Kind: jobs.Python}, p)
	jobstest.End(t, j)
	port := <-p.port
	port.Clear(true)
	port.Write(output.Stdout, []byte("late\n"))
	for cursor, want := range map[int64]string{0: "late\n", j.Cleared() + 2: "te\n"} {
		parts := outputParts(j, cursor, false)
		if from := max(cursor, j.Cleared()); len(parts) != 1 || string(parts[0].data) != want || parts[0].rng.From != from || parts[0].rng.Dropped != 0 {
			t.Errorf("from %d: %q, %+v", cursor, parts[0].data, parts[0].rng)
		}
	}
	if parts := outputParts(j, 0, true); len(parts) != 4 {
		t.Errorf("raw: %d parts", len(parts))
	}
	port.Write(output.Stdout, []byte("12% of the first"))
	port.Clear(true)
	port.Write(output.Stdout, []byte("13%\r14%\n"))
	if parts := outputParts(j, 0, false); len(parts) != 1 || string(parts[0].data) != "14%\n" {
		t.Errorf("a bar in place of another one: %q", parts[0].data)
	}
}

func TestDocsSayHowOutputIsRead(t *testing.T) {
	const page = "docs/replies.md"
	text := readmetest.Text(t, page)
	for typ, i := reflect.TypeFor[Range](), 0; i < typ.NumField(); i++ {
		name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
		if !strings.Contains(text, "`"+name+"`") {
			t.Errorf("%s does not name %s of a %s", page, name, typ.Name())
		}
	}
	if size := fmt.Sprintf("at most %d KiB", readBytes>>10); !strings.Contains(text, size) {
		t.Errorf("%s does not say %q", page, size)
	}
}
