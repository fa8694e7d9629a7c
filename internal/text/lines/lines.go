// Package lines reads the text view of a log line by line, in memory that does not grow with the
// log, and says at which cursor each line begins.
//
// To read a part of a log, call [Scanner.Read] while it returns true: it passes on the lines that
// nothing can change any more. Then [Scanner.Finish] passes on the others. To follow a log that grows,
// repeat:
//
//   - [Scanner.Read] while it returns true.
//   - [Scanner.Pending]: the lines as they are now that can still change, because a program can draw
//     over them. The last one may be unfinished: a prompt. The next call passes them again.
//   - Wait on the log at [Scanner.Cursor].
//
// A scanner passes [Block]s, which hold many lines each. Search their Text, and ask Bounds and Cursor
// about the place of what was found.
//
// Each section (stdout, stderr, result) is a separate text, as in replies: a line that output of
// another section interrupts is one line. So lines come in order within a section only. The text
// begins at the cursor where the scanner begins, and again after bytes that were dropped: a line
// that either of them cuts is shown from there on.
package lines

import (
	"asyncrepl/internal/output"
	"asyncrepl/internal/text/view"
)

// A Section is a part of the output that is read as a separate text.
type Section int

// The sections. Terminal output and the lines of displays belong to stdout.
const (
	Stdout Section = iota
	Stderr
	Result
	Sections // how many there are
)

// SectionOf returns the section of a stream.
func SectionOf(s output.Stream) Section {
	switch s {
	case output.Stderr:
		return Stderr
	case output.Result:
		return Result
	}
	return Stdout
}

// String returns the name of the section.
func (s Section) String() string { return [...]string{"stdout", "stderr", "result"}[s] }

// readBytes is how many bytes one Read takes. More don't make it faster.
const readBytes = 512 << 10

// Overlap is how many bytes at the end of an open block should be searched again with the next one:
// a match can go across the cut between two pieces of a very long line.
const Overlap = 64 << 10

// A Block is the text of consecutive lines of one section.
type Block struct {
	Section Section
	view.Block
}

// A Scanner reads the lines of a log from a cursor on. It must not be used by several goroutines at
// once.
type Scanner struct {
	log     output.Reader
	pass    func(Block)
	at      int64
	folders [Sections]*view.Folder // nil: nothing of the section has been read
	ends    [Sections]int64
	torn    bool   // the text can begin inside a character
	buf     []byte // the memory that read reads the log into
	gaps    []output.Range
}

// NewScanner returns a Scanner that passes lines to pass.
func NewScanner(log output.Reader, from int64, pass func(Block)) *Scanner {
	return &Scanner{log: log, pass: pass, at: from, torn: from > 0}
}

// Cursor returns where the next Read begins.
func (s *Scanner) Cursor() int64 { return s.at }

// Passed returns the cursor before which each line begins that was passed on. All lines that begin
// before it were.
func (s *Scanner) Passed() int64 {
	passed := s.at
	for _, f := range s.folders {
		if f != nil {
			passed = min(passed, f.Begin())
		}
	}
	return passed
}

// Begin returns where the first line of a section begins that was not passed on.
func (s *Scanner) Begin(section Section) int64 {
	if f := s.folders[section]; f != nil {
		return f.Begin()
	}
	return s.at
}

// End returns the cursor after what was read of a section.
func (s *Scanner) End(section Section) int64 { return s.ends[section] }

// Dropped returns the parts of the log that the scanner could not read because they are gone.
func (s *Scanner) Dropped() []output.Range { return s.gaps }

// Read reads the next 512 KiB of the log, but none from the cursor to on. It reports whether it
// has read any: if not, the log ends here, or at a later cursor that is not before to. It never
// waits.
func (s *Scanner) Read(to int64) bool {
	for s.at < to {
		c := s.read(int(min(readBytes, to-s.at)))
		if c.Dropped > 0 {
			s.Finish()
			s.gaps = append(s.gaps, output.Range{From: c.From - c.Dropped, To: c.From})
			s.at, s.torn = c.From, true
			continue // the chunk can reach beyond to, so it is read again
		}
		if c.Next == c.From {
			return false
		}
		for section := range Sections {
			s.write(section, c)
		}
		s.at = c.Next
		return true
	}
	return false
}

// read reads the log, into memory that the next read takes again.
func (s *Scanner) read(limit int) output.Chunk {
	if limit = int(min(int64(limit), max(0, s.log.Stat().End-s.at))); len(s.buf) < limit {
		s.buf = make([]byte, limit)
	}
	return s.log.ReadInto(s.at, s.buf[:limit])
}

// write passes what a chunk has of a section to its folder.
func (s *Scanner) write(section Section, c output.Chunk) {
	var data []byte
	var places []view.Place
	at := c.From
	for _, span := range c.Spans {
		if SectionOf(span.Stream) == section {
			places = append(places, view.Place{Offset: len(data), Cursor: at})
			if data == nil {
				data = span.Data // append copies it, because its capacity is clipped
			} else {
				data = append(data, span.Data...)
			}
		}
		at += int64(len(span.Data))
		if SectionOf(span.Stream) == section {
			s.ends[section] = at
		}
	}
	if data == nil {
		return
	}
	if s.folders[section] == nil {
		if skip := view.Begin(data, 0); s.torn && skip > 0 {
			places = view.PlacesFrom(places, skip)
			data = data[skip:]
		}
		s.folders[section] = view.NewFolder(places[0].Cursor, func(b view.Block) { s.pass(Block{section, b}) })
	}
	s.folders[section].Write(data, places)
}

// Pending passes on the lines that can still change, as they are now. It changes nothing.
func (s *Scanner) Pending(pass func(Block)) {
	for section, f := range s.folders {
		if f != nil {
			f.Pending(func(b view.Block) { pass(Block{Section(section), b}) })
		}
	}
}

// Finish passes on all remaining lines. The text begins again after it.
func (s *Scanner) Finish() {
	for section, f := range s.folders {
		if f != nil {
			f.Finish()
			s.folders[section] = nil
		}
	}
}
