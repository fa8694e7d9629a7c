package jobs

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"asyncrepl/internal/output"
	"asyncrepl/internal/test/must"
)

func lineOf(n int) string { return fmt.Sprintf("[%d]", n) }

// showFigure displays a picture in as many forms as there are data.
func showFigure(p *Port, data ...string) {
	d := Display{Title: "figure", Picture: true}
	var all [][]byte
	for _, b := range data {
		d.Forms, all = append(d.Forms, Form{MIME: "image/png"}), append(all, []byte(b))
	}
	p.Display(d, all, lineOf)
}

// A display has its place among what the job prints, and its line begins where it says.
func TestDisplayIsALineOfTheOutput(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s stage) {
		p := s.begin(Spec{})
		showFigure(p.port, "first")
		p.port.Write(output.Stdout, []byte("a\n"))
		p.port.Write(output.Stderr, []byte("no line"))
		showFigure(p.port, "second", "full size")
		p.port.Write(output.Stdout, []byte("50 %\r"))
		showFigure(p.port)
		p.port.Write(output.TTY, []byte("b"))
		if got, want := string(output.Tail(p.Log(), 100)), "[1]\na\nno line[2]\n50 %\r\n[3]\nb"; got != want {
			t.Errorf("output %q, want %q", got, want)
		}
		all := p.Displays()
		if len(all) != 3 {
			t.Fatalf("%d displays", len(all))
		}
		for i, d := range all {
			line := p.Log().Read(d.Line.From, int(d.Line.To-d.Line.From)).Spans
			if len(line) != 1 || line[0].Stream != output.Display || string(line[0].Data) != lineOf(i+1)+"\n" {
				t.Errorf("line of display %d: %v", i+1, line)
			}
		}
	})
}

// A display has the forms that its job gave it, with their data, also once the job has ended.
func TestDisplayKeepsItsForms(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s stage) {
		p := s.begin(Spec{})
		shown := [][]string{{"first"}, {"second", "full size"}, {}}
		for _, forms := range shown {
			showFigure(p.port, forms...)
		}
		for i, d := range p.Displays() {
			want := shown[i]
			if len(d.Forms) != len(want) || d.Title != "figure" || !d.Picture {
				t.Errorf("display %d: %+v", i+1, d)
			}
			for k, f := range d.Forms {
				if b, err := p.Data(f); string(b) != want[k] || err != nil || f.Size != len(want[k]) || f.MIME != "image/png" {
					t.Errorf("form %d of display %d is %q: %v, %+v", k, i+1, b, err, f)
				}
			}
		}
		p.end(Receipt{End: Returned})
		changed := p.Changed()
		showFigure(p.port, "late")
		<-changed
		if st := p.Log().Stat(); st.End-st.Final != int64(len("[4]\n")) || len(p.Displays()) != 4 {
			t.Errorf("a late display: %+v", st)
		}
	})
}

// What a job clears leaves its displays, with their data, and what comes next begins a line. Their
// numbers are not used again. A clear that waits takes effect with the next output, of any kind.
func TestClearedDisplaysAreDropped(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s stage) {
		p := s.begin(Spec{})
		want := func(step string, cleared int64, numbers ...int) {
			t.Helper()
			var got []int
			for _, d := range p.Displays() {
				got = append(got, d.Number)
			}
			if !slices.Equal(got, numbers) || p.Cleared() != cleared || p.Record().Cleared != cleared {
				t.Errorf("%s: displays %d, cleared %d; want %d, %d", step, got, p.Cleared(), numbers, cleared)
			}
		}
		p.port.Clear(false)
		want("nothing", 0)
		showFigure(p.port, "first", "its full size")
		old := p.Displays()[0]
		p.port.Write(output.Stdout, []byte("50 %"))
		p.port.Clear(true)
		want("waiting", 0, 1)
		if n := len(p.port.Shown()); n != 0 {
			t.Errorf("the next output leaves %d displays", n)
		}
		p.port.Clear(true)
		showFigure(p.port, "second")
		want("a display", 8, 2)
		for _, f := range old.Forms {
			if b, err := p.Data(f); err == nil {
				t.Errorf("data of a display that is gone: %q", b)
			}
		}
		showFigure(p.port, "third")
		p.port.Clear(true)
		want("waiting again", 8, 2, 3)
		p.port.Write(output.Stderr, []byte("x"))
		want("text", 16)
		p.port.Clear(false)
		want("at once", 17)
		showFigure(p.port, "fourth")
		want("at the end", 17, 4)
		if got, want := string(output.Tail(p.Log(), 100)), "[1]\n50 %[2]\n[3]\nx[4]\n"; got != want {
			t.Errorf("output %q, want %q", got, want)
		}
		if n := p.Numbered(); n != 4 {
			t.Errorf("%d displays were numbered", n)
		}
	})
}

// Whoever reads the line of a display finds the display.
func TestDisplayIsThereOnceItsLineIs(t *testing.T) {
	r := NewRegistry(Config{})
	defer r.Close(Stop{By: Shutdown})
	const most = 200
	j := must.Get(r.Start(Spec{}, runFunc(func(_ context.Context, p *Port) Outcome {
		p.Begin()
		var writers sync.WaitGroup
		for range 4 {
			writers.Go(func() {
				for range most / 4 {
					p.Write(output.Stdout, []byte("print\n"))
					p.Display(Display{}, nil, lineOf)
				}
			})
		}
		writers.Wait()
		return Outcome{Receipt: Receipt{End: Returned}}
	})))(t)
	for cursor, seen := int64(0), 0; seen < most; {
		must.Do(t, j.Log().Wait(t.Context(), cursor))
		c := j.Log().Read(cursor, 1000)
		for _, s := range c.Spans {
			if s.Stream == output.Display {
				seen += bytes.Count(s.Data, []byte("\n")) // a read can end within a line
			}
		}
		if all := j.Displays(); len(all) < seen {
			t.Fatalf("%d lines, %d displays", seen, len(all))
		}
		cursor = c.Next
	}
}

// A display without a line changes no output. It has its place in it, and is replaced with what was
// shown there.
func TestDisplayWithoutALine(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, s stage) {
		p := s.begin(Spec{})
		quiet := func() { p.port.Display(Display{Forms: []Form{{MIME: "text/html"}}}, [][]byte{[]byte("<p>")}, nil) }
		p.port.Write(output.Stdout, []byte("no line"))
		quiet()
		p.port.Write(output.Stdout, []byte("\nb\n"))
		showFigure(p.port)
		all := p.Displays()
		if got, want := string(output.Tail(p.Log(), 100)), "no line\nb\n[2]\n"; got != want || len(all) != 2 {
			t.Fatalf("output %q with %d displays, want %q with 2", got, len(all), want)
		}
		if at := (output.Range{From: 7, To: 7}); all[0].Number != 1 || all[0].Line != at {
			t.Errorf("the first display is %+v, not at %v", all[0], at)
		}
		p.port.Clear(true)
		quiet()
		p.port.Write(output.Stdout, []byte("c\n"))
		if all := p.Displays(); len(all) != 1 || all[0].Number != 3 {
			t.Errorf("after a clear the displays are %+v", all)
		}
	})
}
