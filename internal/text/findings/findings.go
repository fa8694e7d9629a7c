// Package findings finds the first error of each kind in the output of a job: what a reader looks
// for first in the middle of a long build that a reply leaves out.
//
// A [Collector] gets the output as it is written, so a reply never searches. It reads every line
// once, and keeps little: the lines that have not ended, and ten errors of each part. Lines with a
// word of kinds.go are compared with the patterns there; a kind is looked for until it is found, and
// failed tests until there are a few. A comparison takes microseconds, so after 2,000 lines only one
// of each 16 KiB is compared: a program that prints such words all the time is not slowed down.
package findings

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"sync"

	"asyncrepl/internal/output"
	"asyncrepl/internal/text/lines"
	"asyncrepl/internal/text/view"
)

const (
	most         = 10      // findings of a part
	severalTests = 4       // findings of each kind of failed tests
	mostBefore   = 50      // findings of earlier parts
	lineBytes    = 1 << 10 // bytes before and after a word that belong to its line, with its colours
	keyBytes     = 500     // bytes of the text of a line that are compared with patterns
	textMax      = 200     // characters of a line that are shown

	freeLines = 2000     // lines that are compared, however many a KiB has
	rareLines = 16 << 10 // one more line is compared for each so many bytes
)

// A Finding is a line that looks like an error.
type Finding struct {
	Section lines.Section
	At      int64  // the cursor at which the line begins
	Text    string // the line, cut to 200 characters

	kind string
}

// A Collector finds errors in output while it is written. The zero value is ready to use.
//
// A line ends at a newline or a carriage return, so that a bar before an error is not part of its
// line. Its text is the text view of its own bytes: what a program draws over it later is not
// known.
type Collector struct {
	mu     sync.Mutex
	open   [lines.Sections]openLine
	before []Finding // earlier parts had these
	found  []Finding // the part that is written now has these

	logged    Finding // the last line that a test of Go has logged
	loggedEnd int64   // the cursor after it

	read     int64 // bytes
	compared int64 // lines with a word
}

// An openLine is the beginning of a line that has not ended.
type openLine struct {
	text []byte // it has at most lineBytes
	at   int64  // the cursor of its first byte
}

// Restart begins a new part of the output, of which the first errors are looked for again: what
// follows an input, or replaces what was printed before. Of the earlier parts the first 50 errors
// are kept.
func (c *Collector) Restart() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.before = append(c.before, c.found[:min(len(c.found), mostBefore-len(c.before))]...)
	c.found = nil
}

// From returns the first error of each kind from a cursor on, in the order of the output. Of a part
// that began before the cursor, the kinds that were found before it are missing.
func (c *Collector) From(cursor int64) (list []Finding) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := slices.Concat(c.before, c.found)
	for section, l := range c.open {
		if len(c.found) < most && nextWord(l.text, 0) >= 0 {
			all = c.appendError(all, lines.Section(section), l.text, l.at)
		}
	}
	slices.SortStableFunc(all, func(a, b Finding) int { return cmp.Compare(a.At, b.At) })
	for _, f := range all {
		if f.At >= cursor && !enough(list, f.kind) && len(list) < most {
			list = append(list, f)
		}
	}
	return list
}

// enough reports whether a list has the first errors of a kind: of tests several, because each names
// another one, and of other kinds one.
func enough(list []Finding, kind string) bool {
	left := 1
	if kind == "test" || kind == subtest || kind == logged || kind == assertion {
		left = severalTests
	}
	for _, f := range list {
		if f.kind == kind {
			left--
		}
	}
	return left <= 0
}

// Write reads what was written to a stream at a cursor. It doesn't keep b.
func (c *Collector) Write(s output.Stream, b []byte, at int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read += int64(len(b))
	section := lines.SectionOf(s)
	open := &c.open[section]
	if len(open.text) > 0 {
		n := lineEnd(b)
		open.text = append(open.text, b[:n]...)
		if n == len(b) && len(open.text) < lineBytes {
			return
		}
		c.search(section, open.text, open.at)
		open.text, b, at = open.text[:0], b[n:], at+int64(n)
	}
	// The rest of the line is not read twice: words in it wait for its end.
	end := max(0, len(b)-lineBytes)
	end += bytes.LastIndexAny(b[end:], "\r\n") + 1
	text := b[:end]
	if !bytes.Contains(text, []byte("\n")) && !bytes.Contains(text, []byte("\r")) {
		text = text[:min(len(text), lineBytes)] // no word further on in a line is compared with patterns
	}
	c.search(section, text, at)
	open.text, open.at = append(open.text, b[end:]...), at+int64(end)
}

// lineEnd returns where the first line of b ends, but at most lineBytes.
func lineEnd(b []byte) int {
	b = b[:min(len(b), lineBytes)]
	if i := bytes.IndexAny(b, "\r\n"); i >= 0 {
		return i
	}
	return len(b)
}

// search adds the errors of some lines to the findings. The caller holds c.mu.
func (c *Collector) search(section lines.Section, b []byte, at int64) {
	for i := 0; len(c.found) < most && c.compared < freeLines+c.read/rareLines; {
		if i = nextWord(b, i); i < 0 {
			return
		}
		c.compared++
		begin := max(0, i-lineBytes)
		if n := bytes.LastIndexAny(b[begin:i], "\r\n"); n >= 0 || begin == 0 {
			begin += n + 1
		} else {
			begin += view.Begin(b[begin:], 0)
		}
		i += lineEnd(b[i:])
		c.found = c.appendError(c.found, section, b[begin:i], at+int64(begin))
	}
}

// appendError appends a line to a list if it is an error of a kind of which the list can have more. What a
// test of Go has logged, just before `go test -v` says that it has failed, is appended, too, unless a
// subtest has failed. The caller holds c.mu.
func (c *Collector) appendError(list []Finding, section lines.Section, line []byte, at int64) []Finding {
	text := strings.TrimRight(view.Text(line), "\n")
	text = text[strings.LastIndexByte(text, '\n')+1:]
	key := text[:min(len(text), keyBytes)]
	key = key[len(prefix().FindString(key)):]
	for _, k := range kinds() {
		if !k.matches(key) || enough(c.found, k.name) {
			continue
		}
		f := Finding{section, at, view.Line(text, textMax), k.name}
		newline := at - c.loggedEnd // bytes
		switch {
		case f.kind == logged:
			c.logged, c.loggedEnd = f, at+int64(len(line))
			return list
		case f.kind == "test" && c.logged.Text != "" && c.logged.Section == section && (newline == 1 || newline == 2):
			list = append(list, c.logged)
		case f.kind == subtest: // the line before its test may be of a subtest that has passed
			test, _, _ := strings.Cut(strings.TrimSpace(f.Text), "/")
			i := slices.IndexFunc(list, func(other Finding) bool { return strings.HasPrefix(other.Text, test+" ") })
			if i > 0 && list[i-1].kind == logged {
				list = slices.Delete(list, i-1, i)
			}
		}
		return append(list, f)
	}
	return list
}
