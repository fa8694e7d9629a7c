package jobs

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"

	"asyncrepl/internal/output"
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

// Whoever reads the line of a display finds the display.
func TestDisplayIsThereOnceItsLineIs(t *testing.T) {
	r := NewRegistry(Config{})
	defer r.Close(Stop{By: Shutdown})
	const most = 200
	j, err := r.Start(Spec{}, runFunc(func(_ context.Context, p *Port) Outcome {
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
	}))
	if err != nil {
		t.Fatal(err)
	}
	for cursor, seen := int64(0), 0; seen < most; {
		if err := j.Log().Wait(t.Context(), cursor); err != nil {
			t.Fatal(err)
		}
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
