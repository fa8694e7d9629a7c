//go:build unix

package history

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"unicode/utf8"

	"asyncrepl/internal/output"
	"asyncrepl/jobs"
)

// The events of a journal. A job has begin, end and amend, in this order; the others are about the
// run.
const (
	begin   = "begin"   // the job is about to start
	end     = "end"     // the job has ended; the line has its output, if that is short
	amend   = "amend"   // its receipt or its displays have changed after its end
	closing = "closing" // the engine has begun to end its jobs
	closed  = "closed"  // all jobs of the run have an end, or a later run has accounted for them
)

// A line is one line of a journal. It begins with lineStart.
type line struct {
	ID     string       `json:"id"` // the job's, or the run's
	Record *jobs.Record `json:"record"`
	besides
}

// What a line has besides the record of its job.
type besides struct {
	Displays []jobs.Display `json:"displays,omitempty"`
	Numbered int            `json:"numbered,omitempty"`
	Output   []span         `json:"output,omitempty"`
}

// A span is output of one stream. Bytes has what is no UTF-8.
type span struct {
	Stream output.Stream `json:"stream"`
	Name   string        `json:"name"` // for people
	Text   string        `json:"text,omitempty"`
	Bytes  []byte        `json:"bytes,omitempty"`
}

// idLength is the length of a ULID.
const idLength = 26

// lineStart is how every line begins; a reader learns event and job without reading the rest.
func lineStart(event, id string) string { return `{"event":"` + event + `","id":"` + id + `"` }

// split returns the event and the job of a line, or false if it is no line of this version.
func split(b []byte) (event, id string, ok bool) {
	b, ok = bytes.CutPrefix(b, []byte(`{"event":"`))
	if !ok {
		return "", "", false
	}
	name, rest, ok := bytes.Cut(b, []byte(`","id":"`))
	if !ok || len(name) > len(closing) || len(rest) <= idLength || rest[idLength] != '"' {
		return "", "", false
	}
	return string(name), string(rest[:idLength]), true
}

// encode returns a line with its newline.
func encode(event string, saved jobs.Saved) ([]byte, error) {
	l := besides{Displays: saved.Displays, Numbered: saved.Numbered}
	for _, s := range saved.Short {
		each := span{Stream: s.Stream, Name: s.Stream.String(), Text: string(s.Data)}
		if !utf8.Valid(s.Data) {
			each.Text, each.Bytes = "", s.Data
		}
		l.Output = append(l.Output, each)
	}
	record, err := saved.Record.MarshalJSON() // without the check of what it returns
	if err != nil {
		return nil, err
	}
	rest, err := json.Marshal(l)
	if err != nil {
		return nil, err
	}
	if rest[0] = ','; len(rest) == len("{}") {
		rest = rest[1:]
	}
	return slices.Concat([]byte(lineStart(event, saved.Record.ID)+`,"record":`), record, rest, []byte("\n")), nil
}

// errVersion means that another version of the program has written a line.
var errVersion = errors.New("written by another version of async-repl")

// decode reads a line. What follows its JSON is ignored: after a crash it can be rubbish. The error
// is errVersion, or the line is not complete.
func decode(b []byte) (saved jobs.Saved, err error) {
	l := line{Record: &saved.Record}
	if err := json.NewDecoder(bytes.NewReader(b)).Decode(&l); err != nil {
		return saved, err
	}
	if l.Record == nil || l.ID != saved.Record.ID || saved.Record.Version != jobs.RecordVersion {
		return saved, errVersion
	}
	saved.Displays, saved.Numbered = l.Displays, l.Numbered
	for _, s := range l.Output {
		saved.Short = append(saved.Short, output.Span{Stream: s.Stream, Data: append(s.Bytes, s.Text...)})
	}
	return saved, nil
}

// A journal is appended to. Its owner guards it.
type journal struct {
	file     *os.File
	size     int64 // where the next line goes
	reserved int64 // space is allocated up to here
	newline  bool  // the next line needs a newline before it
}

// spare is the space that is allocated for ends, beyond what is written: on a full disk the ends of
// the jobs that have begun are still recorded.
const spare = 32 << 10

// reserve allocates the space for n more bytes and for the ends of the jobs that have begun.
func (j *journal) reserve(n int) error {
	if j.size+int64(n)+spare <= j.reserved {
		return nil
	}
	to := j.size + int64(n) + 2*spare
	if err := allocate(j.file, j.size, to-j.size); err != nil {
		return err
	}
	j.reserved = to
	return nil
}

// append writes a line.
func (j *journal) append(b []byte) error {
	if j.newline {
		b = append([]byte("\n"), b...)
	}
	if _, err := j.file.WriteAt(b, j.size); err != nil {
		return errors.Join(err, j.file.Truncate(j.size)) // the next line begins here, too
	}
	j.size, j.newline = j.size+int64(len(b)), false
	return nil
}

// trim gives the reserved space back.
func (j *journal) trim() error {
	j.reserved = 0
	return j.file.Truncate(j.size)
}

const (
	maxJournal = 256 << 20 // bytes; a larger file is not read
	maxLine    = 4 << 20   // bytes; a longer line is skipped
	blockSize  = 16 << 10  // bytes; more than the newest 20 jobs usually have
)

// A tail reads the lines of a journal from its end on.
type tail struct {
	file io.ReaderAt
	at   int64  // the cursor of the first byte of rest
	rest []byte // what was read and is before the line that was returned last
}

// previous returns the line before the one that it returned last, without its newline, or io.EOF.
func (t *tail) previous() ([]byte, error) {
	for {
		if bytes.IndexByte(t.rest, '\n') >= 0 { // it is much faster in zeros
			i := bytes.LastIndexByte(t.rest, '\n')
			line := t.rest[i+1:]
			t.rest = t.rest[:i]
			return line, nil
		}
		if t.at == 0 {
			line := t.rest
			if t.rest = nil; len(line) == 0 {
				return nil, io.EOF
			}
			return line, nil
		}
		if len(t.rest) > maxLine {
			t.rest = nil // it is the end of no line of ours
		}
		n := min(max(blockSize, int64(len(t.rest))), t.at) // a long line is not copied again and again
		more := make([]byte, n, n+int64(len(t.rest)))
		if _, err := t.file.ReadAt(more, t.at-n); err != nil {
			return nil, fmt.Errorf("reading a journal: %w", err)
		}
		t.at -= n
		t.rest = append(more, t.rest...)
	}
}
