package report

import (
	"bytes"
	"slices"
	"unicode/utf8"

	"asyncrepl/internal/output"
	"asyncrepl/internal/view"
	"asyncrepl/jobs"
)

// readBytes is the most that one read of output holds: less than what clients cut.
const readBytes = 32 << 10

// readParts is how many parts one read has at most.
const readParts = 64

// An OutputRange tells a program where the output it was given lies, and how to go
// on: read again with the cursor Next, at once if More.
type OutputRange struct {
	Stream  string `json:"stream,omitempty"` // of this part: stdout, stderr or tty
	From    int64  `json:"from"`             // where the read begins; beyond the cursor asked for if bytes there are gone
	Next    int64  `json:"next"`             // the cursor of the next read
	End     int64  `json:"end"`              // bytes that were written when it was read
	Dropped int64  `json:"dropped"`          // bytes between the cursor asked for and From: they are gone
	More    bool   `json:"more"`             // there is more at Next already
	Status  string `json:"status"`           // of the job: once it has ended, and there is no more, all has been read
}

// An OutputPart is a part of a job's output: of the text view what a stream reads as,
// of the raw view a run of one stream.
type OutputPart struct {
	Data  []byte
	Range OutputRange
}

// ReadOutput is one read of a job's output from the cursor on, which must not be beyond
// the end: of the text view a part a stream, of the raw view a part a run of a stream,
// in order of arrival. There is always one part at least. The status is taken first, so
// that a final one comes with all of the output.
func ReadOutput(j *jobs.Job, cursor int64, raw bool) []OutputPart {
	info := j.Info()
	end := j.Log().Stat().End
	chunk := j.Log().Read(cursor, readBytes)
	if over := len(chunk.Spans) - readParts; raw && over > 0 {
		for _, s := range chunk.Spans[readParts:] {
			chunk.Next -= int64(len(s.Data))
		}
		chunk.Spans = chunk.Spans[:readParts]
	}
	st := OutputRange{From: chunk.From, End: end, Dropped: chunk.Dropped, More: chunk.Next < end, Status: string(info.Status)}
	w := view.Window{Cursor: chunk.From}
	for _, s := range chunk.Spans {
		w.Spans = append(w.Spans, view.Span{Section: int(s.Stream), Data: s.Data})
	}
	all := info.Status.Final() && !st.More
	cut := wholeLines
	if raw {
		cut = wholeCharacters
	}
	if !all {
		whole := cut(view.Window{Cursor: w.Cursor, Spans: slices.Clone(w.Spans)}, st.More)
		if whole.End() > w.Cursor || !st.More { // what a gap tore will never be whole
			w = whole
		}
	}
	st.Next = w.End()
	spans := w.Spans
	if !raw {
		spans = byStream(w)
	}
	var parts []OutputPart
	for _, s := range spans {
		of := st
		of.Stream = output.Stream(s.Section).String()
		parts = append(parts, OutputPart{s.Data, of})
	}
	if parts == nil {
		parts = []OutputPart{{Range: st}}
	}
	return parts
}

// byStream gathers what each stream reads as, in the order in which they began.
func byStream(w view.Window) []view.Span {
	var raw []view.Span
	for _, s := range w.Spans {
		i := 0
		for i < len(raw) && raw[i].Section != s.Section {
			i++
		}
		if i == len(raw) {
			raw = append(raw, view.Span{Section: s.Section})
		}
		raw[i].Data = append(raw[i].Data, s.Data...)
	}
	for i, s := range raw {
		if w.Cursor > 0 {
			s.Data = s.Data[view.Begin(s.Data, 0):]
		}
		raw[i].Data = []byte(view.Text(s.Data))
	}
	return raw
}

// wholeLines cuts a window for the text view so that the next read begins with a
// whole character or escape sequence and, where there is more to read, at the
// beginning of a line if one is near.
func wholeLines(w view.Window, more bool) view.Window {
	if more && len(w.Spans) > 0 {
		size := w.End() - w.Cursor
		at := size
		for i := len(w.Spans) - 1; i >= 0 && at > size/2; i-- {
			data := w.Spans[i].Data
			at -= int64(len(data))
			if n := bytes.LastIndexByte(data, '\n'); n >= 0 && at+int64(n) > size/2 {
				return whole(until(w, w.Cursor+at+int64(n)+1))
			}
		}
	}
	return whole(w)
}

// wholeCharacters cuts a character off that is not there as a whole yet.
func wholeCharacters(w view.Window, _ bool) view.Window {
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
