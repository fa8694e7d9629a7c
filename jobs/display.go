package jobs

import (
	"bytes"
	"mime"
	"slices"
	"strings"

	"asyncrepl/internal/output"
)

// A Display is a picture or a document that a job has shown. A line of the output stands for it, so
// that it has a place among what the job prints. There is none if the text there says the same.
type Display struct {
	Number  int    `json:"number"`            // set by [Port.Display]: the first of the job has 1
	Title   string `json:"title"`             // "figure 1: PNG 640x480"
	Picture bool   `json:"picture,omitempty"` // the first form is an image that a model can be shown
	// Unseen marks a picture that is kept, but not for a model: the job has shown too many.
	Unseen bool   `json:"unseen,omitempty"`
	Forms  []Form `json:"forms"`
	// Line is set by [Port.Display]. If there is no line, it is empty, at the display's place.
	Line output.Range `json:"line"`
}

// A Form is one form of a display. [Job.Data] returns its bytes.
type Form struct {
	MIME       string `json:"mime_type"`
	Size       int    `json:"size"`       // bytes
	Attachment int    `json:"attachment"` // set by [Port.Display]: its number in the job's log
}

// pictureTypes are the types of the pictures that a model can be shown.
var pictureTypes = []string{"image/png", "image/jpeg"}

// typeMost bounds a MIME type, in bytes.
const typeMost = 100

// ValidType reports whether a form can have a MIME type: it is well formed, printable and short.
func ValidType(t string) bool {
	base, _, err := mime.ParseMediaType(t)
	foreign := func(r rune) bool { return r < ' ' || r > '~' }
	return err == nil && len(t) <= typeMost && strings.Contains(base, "/") && !strings.ContainsFunc(t, foreign)
}

// Display adds a display to the job. It keeps the bytes of its forms, which the caller must not
// change any more, and writes the line that line returns for the number of the display: 1 for the
// first of the job. After the end of the job it is late output. If line is nil, Display writes none.
func (p *Port) Display(d Display, data [][]byte, line func(n int) string) {
	j := p.j
	d.Forms = slices.Clone(d.Forms)
	for i, b := range data {
		d.Forms[i].Size, d.Forms[i].Attachment = len(b), j.log.Attach(b)
	}
	p.addDisplay(d, line)
	p.announceLate()
	select {
	case <-j.done:
		j.saving.Lock()
		defer j.saving.Unlock()
		j.save(j.shared.store.Amend)
	default:
	}
}

// addDisplay is the part of Display that holds the lock: a reader of the output that finds the line
// finds the display too.
func (p *Port) addDisplay(d Display, line func(n int) string) {
	j := p.j
	j.displaying.Lock()
	defer j.displaying.Unlock()
	j.settle()
	j.numbered++
	d.Number = j.numbered
	if line == nil {
		end := j.log.Stat().End
		d.Line = output.Range{From: end, To: end}
	} else {
		text, begin := line(d.Number)+"\n", ""
		if !j.atLineStart() {
			begin = "\n"
		}
		d.Line.From = j.write(output.Display, []byte(begin+text)) + int64(len(begin))
		d.Line.To = d.Line.From + int64(len(text))
		j.settle()
	}
	j.displays = append(j.displays, d)
}

// Clear replaces everything that the job has shown and printed so far. Its displays are dropped, and
// views begin after it; the log keeps its bytes. With wait, the next output or display replaces it.
func (p *Port) Clear(wait bool) {
	j := p.j
	j.displaying.Lock()
	defer j.displaying.Unlock()
	j.settle()
	j.clearing, j.clearAt = true, j.log.Stat().End
	j.errors.Restart()
	if !wait {
		j.clearNow()
	}
}

// Shown returns the displays that the job has shown and that its next output will not replace.
func (p *Port) Shown() []Display {
	j := p.j
	j.displaying.Lock()
	defer j.displaying.Unlock()
	if j.clearing {
		return nil
	}
	return slices.Clone(j.displays)
}

// Cleared is [Job.Cleared].
func (p *Port) Cleared() int64 { return p.j.Cleared() }

// settle carries out a Clear that has waited for output, if there is any now. The caller holds
// j.displaying.
func (j *Job) settle() {
	if !j.clearing {
		return
	}
	// What a job at another place has cleared may still be on its way.
	if end := j.log.Stat().End; end > j.clearAt || j.away() && end == j.clearAt {
		j.clearNow()
	}
}

// clearNow carries out the Clear at hand. The caller holds j.displaying.
func (j *Job) clearNow() {
	j.clearing, j.cleared = false, j.clearAt
	kept := slices.IndexFunc(j.displays, func(d Display) bool { return d.Line.From >= j.cleared })
	if kept < 0 {
		kept = len(j.displays)
	}
	j.dropDisplays(kept)
}

// dropDisplays drops the first n displays. The caller holds j.displaying.
func (j *Job) dropDisplays(n int) {
	if n == 0 {
		return
	}
	for _, d := range j.displays[:n] {
		for _, f := range d.Forms {
			j.log.Detach(f.Attachment)
		}
	}
	j.displays = slices.Clone(j.displays[n:]) // readers have the others
}

// Cleared returns the cursor at which the output begins that the job has not replaced, see
// [Port.Clear]. It is 0 if the job has replaced nothing.
func (j *Job) Cleared() int64 {
	j.displaying.Lock()
	defer j.displaying.Unlock()
	j.settle()
	return j.cleared
}

// lineStartBytes bounds the search of a log, from its end, for the last byte before the line of a
// display. The answer can be wrong only after more stderr than that.
const lineStartBytes = 1 << 10

// atLineStart reports whether text that is added to the output begins a line. What is written to
// stderr is shown apart. The caller holds j.displaying.
func (j *Job) atLineStart() bool {
	end, begin := j.log.Stat().End, j.cleared
	if j.clearing {
		begin = j.clearAt
	}
	begin = max(begin, end-lineStartBytes)
	chunk := j.log.Read(begin, int(end-begin))
	for _, s := range slices.Backward(chunk.Spans) {
		if s.Stream != output.Stderr {
			return bytes.HasSuffix(s.Data, []byte("\n"))
		}
	}
	return true
}

// Displays returns the displays that the job has not replaced, in the order of the lines. It
// includes the display of each line that was read from the output before, unless it was replaced
// meanwhile.
func (j *Job) Displays() []Display {
	j.displaying.Lock()
	defer j.displaying.Unlock()
	j.settle()
	if j.away() {
		return slices.Clip(j.arrived())
	}
	return slices.Clip(j.displays)
}

// Numbered returns how many displays the job has shown, with those that it has replaced.
func (j *Job) Numbered() int {
	j.displaying.Lock()
	defer j.displaying.Unlock()
	return j.numbered
}

// Data returns the bytes of a form of one of the job's displays. The error is [output.ErrLimit] if
// they were not kept, or were dropped, because of the limit of all output on disk.
func (j *Job) Data(f Form) ([]byte, error) { return j.log.Attachment(f.Attachment) }
