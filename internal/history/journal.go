//go:build unix

package history

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/oklog/ulid/v2"

	"asyncrepl/internal/output"
	"asyncrepl/jobs"
)

// The events of a journal. A job has begin, resize, end and amend, in this order; the others are about
// the run.
const (
	begin   = "begin"   // the job is about to start
	resize  = "resize"  // its terminal has this size from now on; the record has nothing else
	end     = "end"     // the job has ended; the line has its output, if that is short
	amend   = "amend"   // its receipt or its displays have changed after its end
	reset   = "reset"   // the variables of a session are gone, of jobs that have begun before
	closing = "closing" // the engine has begun to end its jobs
	closed  = "closed"  // all jobs of the run have an end, or a later run has accounted for them
)

// A line is a line about a job.
type line struct {
	Event    string         `json:"event"` // event and id come first, see split
	ID       string         `json:"id"`
	Record   jobs.Record    `json:"record"`
	Displays []jobs.Display `json:"displays,omitempty"`
	Numbered int            `json:"numbered,omitempty"`
	Output   []span         `json:"output,omitempty"`
}

// A span is output of one stream. Output that is no UTF-8 is in Bytes.
type span struct {
	Stream output.Stream `json:"stream"`
	Name   string        `json:"name"` // people read it
	Text   string        `json:"text,omitempty"`
	Bytes  []byte        `json:"bytes,omitempty"`
}

// A note is a line about the run.
type note struct {
	Event   string    `json:"event"`
	ID      string    `json:"id"` // the run's
	Session string    `json:"session,omitempty"`
	Time    time.Time `json:"time"`
}

// idLength is the length of a ULID.
const idLength = 26

// isID reports whether a name is the id of a job or a run.
func isID(name string) bool {
	_, err := ulid.ParseStrict(name)
	return err == nil
}

// split returns the event and the id of a line without reading the rest, or false if it is no line
// of this version.
func split(b []byte) (event, id string, ok bool) {
	b, ok = bytes.CutPrefix(b, []byte(`{"event":"`))
	name, rest, found := bytes.Cut(b, []byte(`","id":"`))
	if !ok || !found || len(name) > len(closing) || len(rest) <= idLength || rest[idLength] != '"' {
		return "", "", false
	}
	id = string(rest[:idLength])
	return string(name), id, isID(id) // it is a part of paths
}

// encode returns a line with its newline. Only the line of the start has the code: it can be longer than
// all of the rest, and never changes.
func encode(event string, saved jobs.Saved) ([]byte, error) {
	if event != begin {
		saved.Record.Code = ""
	}
	l := line{Event: event, ID: saved.Record.ID, Record: saved.Record, Displays: saved.Displays, Numbered: saved.Numbered}
	for _, s := range saved.Short {
		each := span{Stream: s.Stream, Name: s.Stream.String(), Text: string(s.Data)}
		if !utf8.Valid(s.Data) {
			each.Text, each.Bytes = "", s.Data
		}
		l.Output = append(l.Output, each)
	}
	b, err := json.Marshal(l)
	return append(b, '\n'), err
}

// resizeLine returns a line with the size of a terminal. To encode a record takes ten times as long.
func resizeLine(id string, size jobs.Size) []byte {
	const format = `{"event":%q,"id":%q,"record":{"version":%d,"id":%[2]q,"terminal":{"rows":%[4]d,"columns":%d}}}` + "\n"
	return fmt.Appendf(nil, format, resize, id, jobs.RecordVersion, size.Rows, size.Cols)
}

// errVersion means that another version of the program has written a line.
var errVersion = errors.New("written by another version of async-repl")

// values counts the values in JSON, without reading them. The count of what is no JSON means nothing.
func values(b []byte) (n int) {
	quoted := false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case !quoted && (c == ',' || c == '{' || c == '['):
			n++
		}
	}
	return n
}

// errUnsound means that no version of the program has written a line.
var errUnsound = errors.New("not written by async-repl")

// decode reads a line. What follows its JSON is ignored: after a crash it can be rubbish. The error
// is errVersion or errUnsound, or the line is not complete.
func decode(b []byte) (saved jobs.Saved, err error) {
	var l line
	if err := json.NewDecoder(bytes.NewReader(b)).Decode(&l); err != nil {
		return saved, err
	}
	if _, id, _ := split(b); l.ID != id || l.ID != l.Record.ID || l.Record.Version != jobs.RecordVersion {
		return saved, errVersion
	}
	if !l.sound() {
		return saved, errUnsound
	}
	saved = jobs.Saved{Record: l.Record, Displays: l.Displays, Numbered: l.Numbered}
	for _, s := range l.Output {
		saved.Short = append(saved.Short, output.Span{Stream: s.Stream, Data: append(s.Bytes, s.Text...)})
	}
	return saved, nil
}

// sound reports whether a line has what replies about the job rely on: jobs of a confined engine can
// have written it.
func (l *line) sound() bool {
	for _, t := range []time.Time{l.Record.Created, l.Record.Started, l.Record.Ended, l.Record.Answered, l.Record.Output.Last} {
		if year := t.UTC().Year(); year < 0 || year > 9999 { // JSON has no such time: no list with the job could be shown
			return false
		}
	}
	end := int64(0)
	for _, g := range l.Record.Output.Gaps {
		if g.From < end || g.To <= g.From {
			return false
		}
		end = g.To
	}
	noForms := func(d jobs.Display) bool { return len(d.Forms) == 0 }
	return end <= l.Record.Output.End && l.Record.Output.Final <= l.Record.Output.End && !slices.ContainsFunc(l.Displays, noForms)
}

// A journal is appended to. Its owner guards it.
type journal struct {
	file      *os.File
	size      int64  // the next line begins here
	reserved  int64  // space is allocated up to here
	unwritten []byte // lines that the disk has not taken yet
}

const (
	// spare is the space that is allocated for ends, beyond what is written: on a full disk the
	// ends of the jobs that have begun are still recorded.
	spare = 32 << 10
	// maxUnwritten bounds the lines that are kept until the disk takes them, in bytes.
	maxUnwritten = 4 << 20
)

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

// append writes a line, after those that the disk has not taken before. A part that it takes of
// them is written over with the same bytes.
func (j *journal) append(line []byte) error {
	if len(j.unwritten) < maxUnwritten {
		j.unwritten = append(j.unwritten, line...)
	}
	_, err := j.file.WriteAt(j.unwritten, j.size)
	if err == nil {
		j.size, j.unwritten = j.size+int64(len(j.unwritten)), nil
	}
	return err
}

// trim returns the reserved space.
func (j *journal) trim() error { return j.file.Truncate(j.size) }

// rewrite replaces the journal of a run by one that has only the lines about some jobs, and returns
// it. If that is more than half, it changes nothing and returns nil.
func rewrite(old *os.File, dir string, keep func(id string) bool) (_ *os.File, err error) {
	path := filepath.Join(dir, journalName)
	st, err := old.Stat()
	if err != nil {
		return nil, err
	}
	os.Remove(path + unnamed) // a crash can have left it
	file, err := create(path + unnamed)
	if err != nil {
		return nil, fmt.Errorf("rewriting a journal: %w", err)
	}
	lines, w := bufio.NewReaderSize(io.NewSectionReader(old, 0, st.Size()), blockSize), bufio.NewWriterSize(file, blockSize)
	kept, all := 0, 0
	for {
		b, readErr := lines.ReadBytes('\n')
		if _, id, ok := split(b); ok {
			all += len(b)
			if keep(id) {
				kept += len(b)
				w.Write(bytes.TrimRight(b, "\n"))
				w.WriteByte('\n') // the last line can have lost its own
			}
		}
		if readErr != nil {
			break
		}
	}
	if err = w.Flush(); err == nil && kept*2 <= all {
		if err = os.Rename(path+unnamed, path); err == nil {
			return file, nil
		}
	}
	file.Close()
	return nil, errors.Join(err, os.Remove(path+unnamed))
}

const (
	maxJournal = 256 << 20 // bytes; a larger file is not read
	maxLine    = 4 << 20   // bytes; a longer line is skipped
	blockSize  = 16 << 10  // bytes; more than the newest 20 jobs usually have
)

// A tail reads the lines of a journal from its end backwards.
type tail struct {
	file io.ReaderAt
	at   int64  // the cursor of the first byte of rest
	rest []byte // was read; the line that was returned last follows it
	left *int64 // how many bytes can be read, of several files; nil: all
}

var errLarge = errors.New("the records are too large")

// previous returns the line before the one that it returned last, without its newline, or io.EOF.
func (t *tail) previous() ([]byte, error) {
	for {
		i := bytes.LastIndexByte(t.rest, '\n')
		if line := t.rest[i+1:]; i >= 0 || t.at == 0 && len(line) > 0 {
			t.rest = t.rest[:max(0, i)]
			return line, nil
		} else if t.at == 0 {
			return nil, io.EOF
		}
		if len(t.rest) > maxLine {
			t.rest = nil // it is the end of no line of ours
		}
		n := min(max(blockSize, int64(len(t.rest))), t.at) // a long line is not copied again and again
		if t.left != nil {
			if *t.left -= n; *t.left < 0 {
				return nil, errLarge
			}
		}
		more := make([]byte, n, n+int64(len(t.rest)))
		if _, err := t.file.ReadAt(more, t.at-n); err != nil {
			return nil, fmt.Errorf("reading a journal: %w", err)
		}
		t.at -= n
		t.rest = append(more, t.rest...)
	}
}
