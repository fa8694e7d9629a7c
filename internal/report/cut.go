package report

import (
	"bytes"
	"unicode/utf8"

	"asyncrepl/internal/output"
	"asyncrepl/internal/view"
)

// A client that reads a running job's output continues where the last reply ended. So a window
// never ends inside a character or an escape sequence: the next read begins with all of it.

// longestSequence is how many bytes before the end of the output an unfinished escape sequence can
// begin. Anything longer is not a sequence and would hide all later output.
const longestSequence = 4 << 10

// read returns the bytes from..to of the log, without those that are lost while it reads.
func read(log output.Reader, from, to int64) view.Window {
	w := view.Window{Cursor: from}
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

func sectionOf(s output.Stream) int {
	if s == output.Stderr {
		return stderr
	}
	return stdout
}

// complete cuts w back until no stream ends inside a character or an escape sequence. A cut for one
// stream can split a sequence of another, which is then cut back too. If that would withhold more
// bytes than a sequence can have, complete cuts nothing: the sequence might never end.
func complete(w view.Window) view.Window {
	end := w.End()
	newest := newestOf(w)
	for cut := end; ; {
		at := cut
		for _, s := range newest {
			at = min(at, s.completeTo(cut))
		}
		switch {
		case at == cut:
			return until(w, cut)
		case end-at > longestSequence:
			return w
		}
		cut = at
	}
}

// A newestPart holds the bytes of one section among the last bytes of a window.
type newestPart struct {
	data    []byte
	cursors []int64 // of each piece of data
	lens    []int   // of each piece of data
}

func newestOf(w view.Window) (parts []newestPart) {
	from := w.End() - longestSequence
	at := w.Cursor
	for _, s := range w.Spans {
		data := s.Data[min(max(0, from-at), int64(len(s.Data))):]
		at += int64(len(s.Data))
		if len(data) > 0 {
			for len(parts) <= s.Section {
				parts = append(parts, newestPart{})
			}
			p := &parts[s.Section]
			p.data = append(p.data, data...)
			p.cursors, p.lens = append(p.cursors, at-int64(len(data))), append(p.lens, len(data))
		}
	}
	return parts
}

// completeTo returns the last cursor up to cut at which the part is not inside a character or a
// sequence.
func (p newestPart) completeTo(cut int64) int64 {
	n := 0 // bytes before the cut
	for i, cursor := range p.cursors {
		n += int(min(max(0, cut-cursor), int64(p.lens[i])))
	}
	if n < len(p.data) && view.Begin(p.data, n) == n {
		return cut // the bytes after it are known, and a character or sequence begins there
	}
	keep := view.Complete(p.data[:n], false)
	if keep == n {
		return cut
	}
	i := 0
	for ; keep >= p.lens[i]; i++ {
		keep -= p.lens[i]
	}
	return p.cursors[i] + int64(keep)
}

// until returns w up to the cursor end.
func until(w view.Window, end int64) view.Window {
	left := end - w.Cursor
	for i, s := range w.Spans {
		if left <= int64(len(s.Data)) {
			w.Spans = w.Spans[:i:i] // appending must not overwrite the caller's window
			if left > 0 {
				w.Spans = append(w.Spans, view.Span{Section: s.Section, Data: s.Data[:left]})
			}
			break
		}
		left -= int64(len(s.Data))
	}
	return w
}

// completeLines cuts a window for the text view, so that the next read begins with a complete
// character or escape sequence. If there is more to read and a line ends in the second half of the
// window, the cut is after that line.
func completeLines(w view.Window, more bool) view.Window {
	if more && len(w.Spans) > 0 {
		size := w.End() - w.Cursor
		at := size
		for i := len(w.Spans) - 1; i >= 0 && at > size/2; i-- {
			data := w.Spans[i].Data
			at -= int64(len(data))
			if n := bytes.LastIndexByte(data, '\n'); n >= 0 && at+int64(n) > size/2 {
				return complete(until(w, w.Cursor+at+int64(n)+1))
			}
		}
	}
	return complete(w)
}

// completeCharacters cuts off a last character that lacks some of its bytes.
func completeCharacters(w view.Window, _ bool) view.Window {
	if len(w.Spans) == 0 {
		return w
	}
	data := w.Spans[len(w.Spans)-1].Data
	for i := 1; i < utf8.UTFMax && i <= len(data); i++ {
		if b := data[len(data)-i]; utf8.RuneStart(b) {
			if !utf8.FullRune(data[len(data)-i:]) {
				return until(w, w.End()-int64(i))
			}
			break
		}
	}
	return w
}
