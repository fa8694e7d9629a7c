package jobs

import (
	"bytes"
	"slices"

	"asyncrepl/internal/output"
)

// A Display is a picture or a document that a job has shown. A line of the output stands for it, so
// that it has a place among what the job prints.
type Display struct {
	Title   string // "figure 1: PNG 640x480"
	Picture bool   // the first form is an image that a model can be shown
	Forms   []Form
	Line    output.Range // set by [Port.Display]
}

// A Form is one form of a display. [Job.Data] returns its bytes.
type Form struct {
	MIME string
	Size int // bytes

	attachment int // of the job's log
}

// Display adds a display to the job. It keeps the bytes of its forms, which the caller must not
// change any more, and writes the line that line returns for the number of the display: 1 for the
// first of the job. After the end of the job it is late output.
func (p *Port) Display(d Display, data [][]byte, line func(n int) string) {
	j := p.j
	d.Forms = slices.Clone(d.Forms)
	for i, b := range data {
		d.Forms[i].Size, d.Forms[i].attachment = len(b), j.log.Attach(b)
	}
	p.addDisplay(d, line)
	p.announceLate()
}

// addDisplay is the part of Display that holds the lock: a reader of the output that finds the line
// finds the display too.
func (p *Port) addDisplay(d Display, line func(n int) string) {
	j := p.j
	j.displaying.Lock()
	defer j.displaying.Unlock()
	text := line(len(j.displays)+1) + "\n"
	begin := ""
	if !atLineStart(j.log) {
		begin = "\n"
	}
	d.Line.From = j.log.Write(output.Display, []byte(begin+text)) + int64(len(begin))
	d.Line.To = d.Line.From + int64(len(text))
	j.displays = append(j.displays, d)
}

// lineStartBytes is how many bytes at the end of a log are searched for the last one that the next
// line of a display is shown after.
const lineStartBytes = 1 << 10

// atLineStart reports whether text that is added to the output begins a line. What is written to
// stderr is shown apart.
func atLineStart(log output.Reader) bool {
	end := log.Stat().End
	chunk := log.Read(end-lineStartBytes, lineStartBytes)
	for _, s := range slices.Backward(chunk.Spans) {
		if s.Stream != output.Stderr {
			return bytes.HasSuffix(s.Data, []byte("\n"))
		}
	}
	return true
}

// Displays returns what the job has shown, in the order of the lines. It includes the display of
// each line that was read from the output before.
func (j *Job) Displays() []Display {
	j.displaying.Lock()
	defer j.displaying.Unlock()
	return slices.Clip(j.displays)
}

// Data returns the bytes of a form of one of the job's displays. The error is [output.ErrLimit] if
// they were not kept, or were dropped, because of the limit of all output on disk.
func (j *Job) Data(f Form) ([]byte, error) { return j.log.Attachment(f.attachment) }
