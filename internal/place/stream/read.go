package stream

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"
	"slices"
	"sync"

	"asyncrepl/internal/output"
	"asyncrepl/internal/text/view"
	"asyncrepl/jobs"
	"asyncrepl/jobs/display"
)

// The bounds of a frame.
const (
	maxOutput  = 256 << 10 // bytes of output
	maxRecord  = 4 << 20   // bytes of the JSON of a record
	maxHead    = 64 << 10  // bytes of the JSON of a skip or a display
	maxParts   = 100_000   // commas in JSON
	maxForms   = 16
	maxDisplay = 64 << 20 // bytes of all forms of a display
	maxLine    = 64 << 10 // bytes of the line of a display
	maxTitle   = 500      // characters of the title of a display
	maxID      = 100      // characters of a word in an error
)

// sizes bounds the bodies of frames, in bytes.
var sizes = map[byte]int64{outputFrame: outputHead + maxOutput, skipFrame: maxHead, displayFrame: maxHead, recordFrame: maxRecord, aliveFrame: 0, endFrame: 0}

// The bounds of a life.
const (
	maxCursor = 1 << 62
	maxNumber = 1 << 30 // displays
	// A job here has at most 100 displays that it has not replaced, of 64 MiB. It can show as many again before its next
	// output replaces them.
	maxDisplays = 200
	maxShown    = 128 << 20
)

// A Reader reads the life of a job that [Write] writes in another engine. It believes nothing of it.
type Reader struct {
	r    *bufio.Reader
	id   string
	from Position

	cursor    int64
	number    int     // the newest display has this number
	shown     []shown // the displays that the job has not replaced, as far as the records say
	concluded bool    // the record of the end came after all output
	buf       *[maxOutput]byte
	err       error // ends the life

	// From the newest record.
	status   jobs.Status
	end      int64 // the output ends at this cursor
	replaced int64 // the output before this cursor is replaced
}

// A shown display has its place at a cursor, and forms of so many bytes.
type shown struct {
	at   int64
	size int
}

// outputs holds the buffers for output: a reader has one only from a frame to the next, and waits without.
var outputs = sync.Pool{New: func() any { return new([maxOutput]byte) }}

// NewReader returns a reader of the life of the job with that id, which continues at a position.
func NewReader(r io.Reader, id string, from Position) *Reader {
	return &Reader{r: bufio.NewReader(r), id: id, from: from, cursor: from.Cursor, number: from.Displays}
}

// Next returns the next event of the life. After a complete life the error is io.EOF; it is an *[Error] if the
// other engine has sent what can't be true, and otherwise says how the link was lost.
func (r *Reader) Next() (f Frame, err error) {
	if r.buf != nil {
		outputs.Put(r.buf)
		r.buf = nil
	}
	for alive := true; alive && r.err == nil; {
		f, alive, r.err = r.next()
	}
	return f, r.err
}

// next reads a frame. It reports whether the frame says only that the other engine is alive.
func (r *Reader) next() (f Frame, alive bool, err error) {
	var head [headSize]byte
	if err := r.fill(head[:]); err != nil {
		return f, false, err
	}
	kind, size := head[0], int64(binary.BigEndian.Uint32(head[1:]))
	switch limit, ok := sizes[kind]; {
	case !ok:
		return f, false, lie("sent a frame of an unknown type, %q", kind)
	case size > limit:
		return f, false, lie("sent a frame of type %q and %d bytes; the most is %d", kind, size, limit)
	}
	switch kind {
	case outputFrame:
		err = r.output(&f, int(size))
	case skipFrame:
		err = r.skip(&f, size)
	case displayFrame:
		err = r.display(&f, size)
	case recordFrame:
		err = r.newRecord(&f, size)
	case aliveFrame:
		return f, true, nil
	case endFrame:
		err = io.EOF
		if !r.concluded {
			err = lie("sent the end of a job without a record of it")
		}
	}
	return f, false, err
}

// fill reads as many bytes as b has.
func (r *Reader) fill(b []byte) error {
	_, err := io.ReadFull(r.r, b)
	return unexpected(err)
}

// read reads n bytes. The memory that it takes grows with what comes, and not with what was announced.
func (r *Reader) read(n int64) ([]byte, error) {
	var b bytes.Buffer
	_, err := io.CopyN(&b, r.r, n)
	return b.Bytes(), unexpected(err)
}

// unexpected returns an error of a read for a life that is not complete.
func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// decode reads n bytes of JSON into v, which has a name.
func (r *Reader) decode(n int64, name string, v any) error {
	b, err := r.read(n)
	if err != nil {
		return err
	}
	// A list of nothing takes a byte and a half for each element there, and up to 300 here.
	if bytes.Count(b, []byte(",")) > maxParts {
		return lie("sent %s of more than %d parts", name, maxParts)
	}
	if err := json.Unmarshal(b, v); err != nil {
		return lie("sent %s that can't be read: %s", name, view.Line(err.Error(), maxText))
	}
	return nil
}

func (r *Reader) output(f *Frame, size int) error {
	var head [outputHead]byte
	if size <= outputHead {
		return lie("sent output of no byte")
	}
	if err := r.fill(head[:]); err != nil {
		return err
	}
	stream, at := output.Stream(head[0]), binary.BigEndian.Uint64(head[1:])
	size -= outputHead
	switch {
	case stream > output.Display:
		return lie("sent output of an unknown stream, %d", head[0])
	case at != uint64(r.cursor):
		return lie("sent the output at cursor %d; the one at %d comes next", at, r.cursor)
	case r.cursor+int64(size) > maxCursor:
		return lie("sent more output than a job can have")
	}
	r.buf = outputs.Get().(*[maxOutput]byte)
	f.Data, f.Stream = r.buf[:size], stream
	r.cursor += int64(size)
	return r.fill(f.Data)
}

func (r *Reader) skip(f *Frame, size int64) error {
	var s Skip
	if err := r.decode(size, "a skip", &s); err != nil {
		return err
	}
	if s.To <= r.cursor || s.To > r.end {
		return lie("skipped the output from cursor %d to %d; it ends at %d", r.cursor, s.To, r.end)
	}
	n, left := s.To-r.cursor, s.To-r.cursor
	for _, of := range []int64{s.Why.Cap, s.Why.Disk, s.Why.Limit} {
		if of < 0 || of > left {
			return lie("skipped %d bytes, and counts others as their causes", n)
		}
		left -= of
	}
	r.cursor, f.Skip = s.To, &s
	return nil
}

func (r *Reader) newRecord(f *Frame, size int64) error {
	var body recordBody
	if err := r.decode(size, "a record", &body); err != nil {
		return err
	}
	rec, out := &body.Record, body.Record.Output
	switch {
	case rec.ID != r.id:
		return lie("sent a record of another job, %q", view.Line(rec.ID, maxID))
	case !slices.Contains(jobs.Statuses, rec.Status):
		return lie("sent an unknown status, %q", view.Line(string(rec.Status), maxID))
	case rec.Kind != jobs.Python && rec.Kind != jobs.Shell && rec.Kind != jobs.Package:
		return lie("sent an unknown kind of job, %q", view.Line(string(rec.Kind), maxID))
	case (rec.Status == jobs.WaitingInput) != (rec.Question != nil):
		return lie("sent a record of a job that is %s, and whether it asks contradicts that", rec.Status)
	case rec.Status.Final() && rec.Receipt.Status() != rec.Status:
		return lie("sent a record of a job that is %s, and its receipt contradicts that", rec.Status)
	case ended(r.status) && rec.Status != r.status:
		return lie("sent the status %s of a job that was %s", rec.Status, r.status)
	case out.End < r.end, out.End > maxCursor, out.Final < -1, out.Final > out.End:
		return lie("sent a record with output up to %d; it was %d before", out.End, r.end)
	case rec.Cleared < r.replaced, rec.Cleared > out.End:
		return lie("sent a record in which the output up to %d of %d is replaced", rec.Cleared, out.End)
	}
	if err := tidyRecord(&body); err != nil {
		return err
	}
	f.Record, f.Now, f.Behind = rec, body.Now, max(0, out.End-r.cursor)
	r.concluded = r.concluded || rec.Status.Final() && f.Behind == 0
	r.status, r.end, r.replaced = rec.Status, out.End, rec.Cleared
	return nil
}

func (r *Reader) display(f *Frame, size int64) error {
	var head displayHead
	if err := r.decode(size, "a display", &head); err != nil {
		return err
	}
	d, total := &head.Display, 0
	for _, n := range head.Sizes {
		if n < -1 || n > maxDisplay {
			return lie("sent a display with a form of %d bytes", n)
		}
		total += max(0, n)
	}
	r.shown = slices.DeleteFunc(r.shown, func(s shown) bool { return s.at < r.replaced })
	r.shown = append(r.shown, shown{d.Line.From, total})
	all := 0
	for _, s := range r.shown {
		all += s.size
	}
	switch n := len(d.Forms); {
	case d.Number <= r.number || d.Number > maxNumber:
		return lie("sent display %d after display %d", d.Number, r.number)
	case n == 0 || n > maxForms || n != len(head.Sizes):
		return lie("sent a display of %d forms, with the bytes of %d; the most is %d", n, len(head.Sizes), maxForms)
	case total > maxDisplay:
		return lie("sent a display of %d bytes; the most is %d", total, maxDisplay)
	case len(r.shown) > maxDisplays || all > maxShown:
		return lie("sent %d displays of %d bytes, of which it has replaced none", len(r.shown), all)
	case d.Line.From < 0 || d.Line.To < d.Line.From || d.Line.To-d.Line.From > maxLine || d.Line.To > maxCursor:
		return lie("sent a display whose line is at %d to %d", d.Line.From, d.Line.To)
	case r.from.Cursor <= d.Line.From && d.Line.From < r.cursor:
		return lie("sent the display at cursor %d after the output before %d", d.Line.From, r.cursor)
	}
	for i, n := range head.Sizes {
		var b []byte // stays nil if the form is lost
		if n >= 0 {
			var err error
			if b, err = r.read(int64(n)); err != nil {
				return err
			}
			b = append([]byte{}, b...)
		}
		f.Forms = append(f.Forms, b)
		form := &d.Forms[i]
		*form = jobs.Form{MIME: display.Type(form.MIME), Size: max(0, n)}
	}
	first := display.Form{MIME: d.Forms[0].MIME, Data: f.Forms[0]}
	d.Picture = d.Picture && display.Showable(first)
	d.Title = view.Line(d.Title, maxTitle)
	r.number, f.Display = d.Number, d
	return nil
}
