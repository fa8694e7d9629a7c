package stream

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"sync"
	"time"

	"asyncrepl/internal/output"
	"asyncrepl/jobs"
)

const (
	// aliveTime is the longest time without a frame.
	aliveTime = 15 * time.Second
	// muchOutput is how many bytes of output are so many that the record of an end does not wait for them.
	muchOutput = 1 << 20

	writeSize = 256 << 10 // bytes of one write, at most
	readSize  = 64 << 10  // bytes that are read from a log at once
)

// Write writes the life of a job from a position on. It returns nil when the life is complete, the cause of ctx
// when that is done, or the error of w.
func Write(ctx context.Context, w http.ResponseWriter, j *jobs.Job, from Position) error {
	soon, cancel := context.WithTimeout(ctx, from.Quick)
	j.Await(soon) // an error: it has not ended
	cancel()
	life := &writer{job: j, cursor: from.Cursor, shown: from.Displays, to: w, flusher: http.NewResponseController(w)}
	alive := time.NewTimer(aliveTime)
	defer alive.Stop()
	for {
		changed := j.Changed()
		if err := life.round(); err != nil {
			return err
		}
		if life.complete() {
			return nil
		}
		// A log that is finished is always readable: what happens then is announced by the job.
		var more <-chan struct{}
		if life.now.Output.Final < 0 {
			more = j.Log().More(life.cursor)
		}
		alive.Reset(aliveTime)
		select {
		case <-changed:
		case <-more:
		case <-alive.C:
			life.idle = true
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// WriteRecord writes the present record of a job and nothing more, in the frame in which a life has it.
func WriteRecord(w http.ResponseWriter, j *jobs.Job) error {
	only := &writer{job: j, buffers: &buffers{out: bufio.NewWriter(w)}}
	only.freshRecord()
	return only.out.Flush()
}

// A writer writes one life.
type writer struct {
	job     *jobs.Job
	to      http.ResponseWriter
	flusher *http.ResponseController

	cursor    int64       // the output before it is written
	shown     int         // the number of the newest display that is written
	now       jobs.Record // the newest record that was taken
	said      jobs.Record // the newest record that is written; never newer than now
	concluded bool        // said is the record of the end, and came after all output
	idle      bool        // nothing was written for aliveTime

	*buffers // nil between two rounds
}

// buffers are what a writer needs while it writes. Most of the time it waits, and an engine can have a thousand.
type buffers struct {
	out  *bufio.Writer
	read [readSize]byte
}

var pool = sync.Pool{New: func() any { return &buffers{out: bufio.NewWriterSize(nil, writeSize)} }}

// round writes everything that is new.
func (w *writer) round() error {
	w.buffers = pool.Get().(*buffers)
	w.out.Reset(w.to)
	defer func() {
		w.out.Reset(nil)
		pool.Put(w.buffers)
		w.buffers = nil
	}()
	if err := w.news(); err != nil {
		return err
	}
	if w.complete() {
		w.frame(endFrame, nil)
		return w.out.Flush() // the end of the request sends it: a quick job is one write
	}
	if w.idle && w.out.Buffered() == 0 {
		w.frame(aliveFrame, nil)
	}
	w.idle = false
	if err := w.out.Flush(); err != nil {
		return err
	}
	return w.flusher.Flush()
}

// complete reports whether nothing more will be known of the job.
func (w *writer) complete() bool {
	left := len(w.now.Receipt.Left) + len(w.now.Receipt.Survivors)
	return w.now.Status.Final() && (left == 0 || w.job.Past())
}

// news writes the output, the displays and the record that are new.
func (w *writer) news() error {
	w.now = w.job.Record()
	for {
		w.displays(w.cursor)
		if w.cursor >= w.now.Output.End {
			break
		}
		if w.now.Status.Final() && w.now.Output.End-w.cursor > muchOutput && !ended(w.said.Status) {
			w.record()
		}
		if err := w.output(); err != nil {
			return err
		}
		select {
		case <-w.job.Done():
			if !w.now.Status.Final() {
				w.now = w.job.Record()
			}
		default:
		}
	}
	same := w.said
	same.Output = w.now.Output
	if !reflect.DeepEqual(w.now, same) || w.now.Status.Final() && !w.concluded {
		w.record()
	}
	return nil
}

// record writes the newest record that was taken.
func (w *writer) record() {
	b, err := json.Marshal(recordBody{time.Now(), w.now})
	if err != nil {
		panic("the JSON of a record: " + err.Error()) // no field of it can fail
	}
	w.said, w.concluded = w.now, w.now.Status.Final() && w.cursor >= w.now.Output.End
	w.frame(recordFrame, b)
}

// freshRecord takes a record and writes it. The reader needs one for what follows.
func (w *writer) freshRecord() {
	w.now = w.job.Record()
	w.record()
}

// output writes the next output, after the displays that have their place in it.
func (w *writer) output() error {
	c := w.job.Log().ReadInto(w.cursor, w.read[:])
	if c.Next <= w.cursor {
		return errors.New("the output can't be read")
	}
	w.displays(c.Next)
	if c.From > w.cursor {
		w.skip(c.From)
	}
	for _, s := range c.Spans {
		if err := w.data(s.Stream, s.Data); err != nil {
			return err
		}
	}
	return nil
}

// data writes output of one stream.
func (w *writer) data(s output.Stream, b []byte) error {
	var head [headSize + outputHead]byte
	head[0] = outputFrame
	binary.BigEndian.PutUint32(head[1:], uint32(outputHead+len(b)))
	head[headSize] = byte(s)
	binary.BigEndian.PutUint64(head[headSize+1:], uint64(w.cursor))
	w.out.Write(head[:])
	w.cursor += int64(len(b))
	_, err := w.out.Write(b)
	return err
}

// skip says that the output up to a cursor is gone, and why. The record before it counts that output.
func (w *writer) skip(to int64) {
	if to > w.said.Output.End {
		w.freshRecord()
	}
	b, _ := json.Marshal(Skip{to, causes(w.job.Log().Stat(), w.cursor, to)}) // it can't fail
	w.cursor = to
	w.frame(skipFrame, b)
}

// causes returns why the bytes from..to of a log are gone. A log knows the sums of all its gaps only. If there are
// several causes, those of the first gaps are taken for the first cause.
func causes(s output.Stat, from, to int64) (why output.Loss) {
	before := int64(0)
	for _, g := range s.Gaps {
		before += max(0, min(g.To, from)-g.From)
	}
	first, last := before, before+to-from
	for _, c := range []struct{ of, to *int64 }{{&s.Loss.Cap, &why.Cap}, {&s.Loss.Disk, &why.Disk}, {&s.Loss.Limit, &why.Limit}} {
		*c.to = max(0, min(last, *c.of)-max(first, 0))
		first, last = first-*c.of, last-*c.of
	}
	return why
}

// displays writes the displays that are new and have their place before or at a cursor. Their lines come later: a job
// has the display of each line that was read.
func (w *writer) displays(to int64) {
	for _, d := range w.job.Displays() {
		if d.Number <= w.shown || d.Line.From > to {
			continue
		}
		if w.job.Cleared() > w.said.Cleared {
			w.freshRecord() // its reader counts the displays that are not replaced
		}
		w.display(d)
		w.shown = d.Number
	}
}

// display writes a display and the bytes of its forms.
func (w *writer) display(d jobs.Display) {
	head := displayHead{Display: d}
	var forms [][]byte
	for _, f := range d.Forms {
		b, err := w.job.Data(f)
		size := len(b)
		if err != nil {
			size = -1
		}
		forms, head.Sizes = append(forms, b), append(head.Sizes, size)
	}
	b, _ := json.Marshal(head) // it can't fail
	w.frame(displayFrame, b)
	for _, b := range forms {
		for len(b) > 0 {
			n := min(len(b), writeSize)
			w.out.Write(b[:n])
			b = b[n:]
		}
	}
}

// frame writes a frame. The error of the writer stays, and its flush returns it.
func (w *writer) frame(kind byte, body []byte) {
	var head [headSize]byte
	head[0] = kind
	binary.BigEndian.PutUint32(head[1:], uint32(len(body)))
	w.out.Write(head[:])
	w.out.Write(body)
}
