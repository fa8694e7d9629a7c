package report

import (
	"bytes"
	"unicode/utf8"

	"asyncrepl/internal/output"
	"asyncrepl/internal/view"
)

// A client that reads a running job's output continues where the last reply ended. So what it gets
// never ends inside a character or an escape sequence: the next read begins with all of it.

// read returns the bytes from..to of the log, without those that are lost while it reads.
func read(log output.Reader, from, to int64) view.Stretch {
	w := view.Stretch{Cursor: from}
	for at := from; at < to; {
		c := log.Read(at, int(to-at))
		if c.Dropped > 0 && at == from {
			w.Cursor = c.From
		}
		if c.Next == c.From || c.Dropped > 0 && at > from {
			break
		}
		for _, s := range c.Spans {
			w.Spans = append(w.Spans, view.Span{Section: sectionOf(s.Stream), Data: s.Data})
		}
		at = c.Next
	}
	return w
}

// completeLines cuts a stretch for the text view. If there is more to read and a line ends in its
// second half, the cut is after that line.
func completeLines(w view.Stretch, more bool) view.Stretch {
	if more && len(w.Spans) > 0 {
		size := w.End() - w.Cursor
		at := size
		for i := len(w.Spans) - 1; i >= 0 && at > size/2; i-- {
			data := w.Spans[i].Data
			at -= int64(len(data))
			if n := bytes.LastIndexByte(data, '\n'); n >= 0 && at+int64(n) > size/2 {
				return w.Until(w.Cursor + at + int64(n) + 1).Complete()
			}
		}
	}
	return w.Complete()
}

// completeCharacters cuts off a last character that lacks some of its bytes.
func completeCharacters(w view.Stretch, _ bool) view.Stretch {
	if len(w.Spans) == 0 {
		return w
	}
	data := w.Spans[len(w.Spans)-1].Data
	for i := 1; i < utf8.UTFMax && i <= len(data); i++ {
		if b := data[len(data)-i]; utf8.RuneStart(b) {
			if !utf8.FullRune(data[len(data)-i:]) {
				return w.Until(w.End() - int64(i))
			}
			break
		}
	}
	return w
}
