package export

import (
	"fmt"
	"slices"
	"strings"

	"asyncrepl/internal/notebook"
	"asyncrepl/internal/output"
	"asyncrepl/internal/reply/report"
	"asyncrepl/internal/text/pattern"
	"asyncrepl/internal/text/view"
	"asyncrepl/jobs"
	"asyncrepl/jobs/display"
)

// The limits of a notebook, in bytes.
const (
	maxText    = 1 << 20  // a job's output; the middle of a longer one is left out
	maxOutputs = 32 << 20 // all outputs together

	// maxDisplays bounds all displays together. In base64 they grow by a third, and the notebook
	// must stay small enough to be replaced.
	maxDisplays = 160 << 20
)

// A reading reads the output of a job as the outputs of a cell.
type reading struct {
	job      *jobs.Job
	displays []jobs.Display // the displays not yet added to outputs, in the order of their lines
	answers  []jobs.Answer  // the answers still to be added to outputs, in order
	markdown bool           // the result is Markdown
	room     *room

	outputs []notebook.Output
	name    string // the stream whose text is being collected
	text    []byte // the collected text
	result  []byte
}

// A room is how many bytes of outputs and of displays a notebook can still take.
type room struct{ outputs, displays int }

// all returns the output of the job, without what the job has replaced.
func (r *reading) all() []notebook.Output {
	record := r.job.Record()
	begin, end := record.Cleared, record.Output.End
	for len(r.answers) > 0 && r.answers[0].At < begin {
		r.answers = r.answers[1:]
	}
	switch {
	case r.room.outputs <= 0:
		r.outputs = append(r.outputs, note("the output of this job is left out: the notebook has %d MiB of output; %s has it", maxOutputs>>20, report.OutputURI(r.job.ID())))
	case end-begin <= maxText:
		r.read(begin, end)
	default:
		r.read(begin, begin+maxText/2)
		r.skip(begin+maxText/2, end-maxText/2)
		r.read(end-maxText/2, end)
	}
	r.flush()
	r.display(end)
	for _, n := range record.Receipt.Notes {
		if display.IsNote(n) {
			r.outputs = append(r.outputs, note("%s", n))
		}
	}
	if len(r.result) > 0 {
		text := view.Text(r.result)
		items := []notebook.Item{{MIME: "text/plain", Data: []byte(text)}}
		if r.markdown {
			items = append(items, notebook.Item{MIME: "text/markdown", Data: []byte(tableEnd().ReplaceAllString(text, "$1\n$2"))})
		}
		r.outputs = append(r.outputs, notebook.Output{Result: true, Items: items})
	}
	return r.outputs
}

// tableEnd matches the end of a table and the line about its shape. Without a blank line between
// them Markdown shows the shape as one more row: https://github.github.com/gfm/#tables-extension-
var tableEnd = pattern.Lazy(`(\|\n)(\[\d+ rows[^\n]*\])$`)

// read reads the bytes from..to of the log and the answers given there, because a terminal would
// show what was typed.
func (r *reading) read(from, to int64) {
	for len(r.answers) > 0 && r.answers[0].At <= to {
		at := max(from, r.answers[0].At)
		r.bytes(from, at)
		r.write("stdout", []byte(strings.TrimSuffix(r.answers[0].Text, "\n")+"\n"))
		from, r.answers = at, r.answers[1:]
	}
	r.bytes(from, to)
}

// bytes reads the bytes from..to of the log.
func (r *reading) bytes(from, to int64) {
	for from < to {
		chunk := r.job.Log().Read(from, int(to-from))
		if chunk.Dropped > 0 {
			r.skip(from, min(chunk.From, to))
		}
		at := chunk.From
		for _, span := range chunk.Spans {
			end := at + int64(len(span.Data))
			// A display without a line has its place between two bytes.
			for span.Stream != output.Display && len(r.displays) > 0 && r.displays[0].Line.From < end {
				place := max(at, r.displays[0].Line.From)
				r.span(output.Span{Stream: span.Stream, Data: span.Data[:place-at]}, at)
				r.flush()
				r.display(place + 1)
				span.Data, at = span.Data[place-at:], place
			}
			r.span(span, at)
			at = end
		}
		if chunk.Next <= from {
			return // the rest was discarded
		}
		from = chunk.Next
	}
}

// skip notes that the bytes from..to are left out. Displays there are kept.
func (r *reading) skip(from, to int64) {
	r.flush()
	r.display(to)
	for len(r.answers) > 0 && r.answers[0].At < to {
		r.answers = r.answers[1:]
	}
	r.outputs = append(r.outputs, note("%s of output are left out; %s has what is kept of them",
		view.CountOf(to-from, "byte"), report.OutputURI(r.job.ID())))
}

// span adds a span of the log, the first byte of which is at the cursor at.
func (r *reading) span(s output.Span, at int64) {
	switch s.Stream {
	case output.Result:
		r.room.outputs -= len(s.Data)
		r.result = append(r.result, s.Data...)
	case output.Display:
		r.room.outputs -= len(s.Data)
		r.flush()
		r.display(at + int64(len(s.Data)))
	case output.Stderr:
		r.write("stderr", s.Data)
	default:
		r.write("stdout", s.Data)
	}
}

// write adds text to a stream.
func (r *reading) write(name string, text []byte) {
	if name != r.name {
		r.flush()
	}
	r.name, r.text = name, append(r.text, text...)
	r.room.outputs -= len(text)
}

// flush ends the text of a stream.
func (r *reading) flush() {
	if text := view.Text(r.text); text != "" {
		r.outputs = append(r.outputs, notebook.Output{Stream: r.name, Text: text})
	}
	r.text = nil
}

// display adds the displays whose lines begin before the cursor to.
func (r *reading) display(to int64) {
	for len(r.displays) > 0 && r.displays[0].Line.From < to {
		r.outputs = append(r.outputs, r.picture(r.displays[0]))
		r.displays = r.displays[1:]
	}
}

// picture returns a display in all its forms. Of two forms of the same type the later one is the
// full size.
func (r *reading) picture(d jobs.Display) notebook.Output {
	o := notebook.Output{}
	size := 0
	for _, f := range d.Forms {
		size += f.Size
	}
	if size > r.room.displays {
		return note("%s is left out: the notebook has %d MiB of displays; %s has it", d.Title, maxDisplays>>20, display.URI(r.job.ID(), d.Number))
	}
	r.room.displays -= size
	for _, f := range d.Forms {
		data, err := r.job.Data(f)
		if err != nil {
			continue
		}
		o.Items = slices.DeleteFunc(o.Items, func(i notebook.Item) bool { return i.MIME == f.MIME })
		o.Items = append(o.Items, notebook.Item{MIME: f.MIME, Data: data})
	}
	if len(o.Items) == 0 {
		return note("%s: its data is no longer kept", d.Title)
	}
	if !slices.ContainsFunc(o.Items, func(i notebook.Item) bool { return i.MIME == "text/plain" }) {
		o.Items = append(o.Items, notebook.Item{MIME: "text/plain", Data: []byte(d.Title)})
	}
	return o
}

// note returns an output that says something about the output.
func note(format string, a ...any) notebook.Output {
	return notebook.Output{Stream: "stderr", Text: "[" + fmt.Sprintf(format, a...) + "]\n"}
}

// traceback begins the report of an exception. Reports of chained exceptions follow one another:
// https://docs.python.org/3/tutorial/errors.html#exception-chaining
const traceback = "Traceback (most recent call last):"

// withError makes the traceback at the end of the outputs an error. It reports false if they don't
// end with a traceback of that exception: the program may have reported it in its own way.
func withError(list []notebook.Output, name, text string) ([]notebook.Output, bool) {
	n := len(list) - 1
	if n < 0 || list[n].Stream != "stderr" {
		return list, false
	}
	lines := strings.SplitAfter(list[n].Text, "\n")
	last := len(lines) - 1
	for last >= 0 && !strings.HasPrefix(lines[last], name) {
		last--
	}
	begin := last
	for begin > 0 && !strings.Contains(lines[begin], traceback) {
		begin--
	}
	if last < 0 || !strings.Contains(lines[begin], traceback) {
		return list, false
	}
	for linked(lines[:begin]) {
		begin -= 4
		for begin > 0 && !strings.Contains(lines[begin], traceback) {
			begin--
		}
	}
	before := strings.Join(lines[:begin], "")
	report := strings.Split(strings.TrimSuffix(strings.Join(lines[begin:], ""), "\n"), "\n")
	list = slices.Clone(list[:n])
	if before != "" {
		list = append(list, notebook.Output{Stream: "stderr", Text: before})
	}
	return append(list, notebook.Output{Name: name, Text: text, Traceback: report}), true
}

// linked reports whether lines end with a traceback and the sentence with which Python links it to
// the next one: the first exception caused the second, or was being handled when that was raised.
func linked(lines []string) bool {
	n := len(lines)
	return n >= 4 && lines[n-1] == "\n" && lines[n-3] == "\n" &&
		(strings.HasPrefix(lines[n-2], "During handling of the above") || strings.HasPrefix(lines[n-2], "The above exception was"))
}
