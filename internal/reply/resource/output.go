package resource

import (
	"bytes"
	"slices"
	"unicode/utf8"

	"asyncrepl/internal/output"
	"asyncrepl/internal/text/view"
	"asyncrepl/jobs"
)

// readBytes bounds the output that one read returns. Clients truncate more: Claude Code 2.1.329
// passes on at most 50,000 characters of a tool's result.
const readBytes = 32 << 10

// readParts is the most parts that one read returns. The raw view begins a part at each change of
// stream, so without a limit alternating output would become thousands of parts.
const readParts = 64

// A Range says which part of the log was read and how to continue: read again from the
// cursor Next, immediately if More is set.
type Range struct {
	Stream string `json:"stream,omitempty"` // the stream of this part: stdout, stderr or tty
	// From is the first cursor read. It is after the requested cursor if bytes there are gone.
	From    int64 `json:"from"`
	Next    int64 `json:"next"`    // the cursor of the next read
	End     int64 `json:"end"`     // bytes written when it was read
	Dropped int64 `json:"dropped"` // bytes between the requested cursor and From, which are gone
	More    bool  `json:"more"`    // there is already output at Next
	// Status is the job's status. If it is final and More is not set, all output has been read.
	Status string `json:"status"`
}

// A part is a part of a job's output: in the text view the text of one stream, in the raw view
// consecutive bytes of one stream.
type part struct {
	data []byte
	rng  Range
}

// outputParts returns a job's output from cursor on, which must not be beyond the end. The text
// view has one part for each stream, the raw view one for each change of stream, in order of
// arrival; there is always at least one part. The text view begins after what the job has replaced.
// The status is taken before the output, so all output of a job whose status is final can be read.
func outputParts(j *jobs.Job, cursor int64, raw bool) []part {
	record := j.Record()
	status, end := record.Status, record.Output.End
	if !raw {
		cursor = max(cursor, record.Cleared)
	}
	chunk := j.Log().Read(cursor, readBytes)
	if over := len(chunk.Spans) - readParts; raw && over > 0 {
		for _, s := range chunk.Spans[readParts:] {
			chunk.Next -= int64(len(s.Data))
		}
		chunk.Spans = chunk.Spans[:readParts]
	}
	rng := Range{From: chunk.From, End: end, Dropped: chunk.Dropped, More: chunk.Next < end, Status: string(status)}
	w := view.Stretch{Cursor: chunk.From}
	for _, s := range chunk.Spans {
		w.Spans = append(w.Spans, view.Span{Section: int(s.Stream), Data: s.Data})
	}
	if !status.Final() || rng.More {
		cut := completeLines
		if raw {
			cut = completeCharacters
		}
		shorter := cut(w, rng.More)
		// A sequence that a gap has split is never complete.
		if shorter.End() > w.Cursor || !rng.More {
			w = shorter
		}
	}
	rng.Next = w.End()
	spans := w.Spans
	if !raw {
		spans = byStream(j.Log(), w, record.Cleared)
	}
	if len(spans) == 0 {
		return []part{{rng: rng}}
	}
	parts := make([]part, len(spans))
	for i, s := range spans {
		parts[i] = part{s.Data, rng}
		parts[i].rng.Stream = output.Stream(s.Section).String()
	}
	return parts
}

// byStream returns the text of each stream, in the order in which the streams begin. A bar that a
// stream begins in is complete, in its last state. What stands before the cursor first was replaced.
func byStream(log output.Reader, w view.Stretch, first int64) []view.Span {
	before := map[int][]byte{}
	if from := max(first, w.Cursor-view.LineBytes); from < w.Cursor {
		if chunk := log.Read(from, int(w.Cursor-from)); chunk.Dropped == 0 {
			for _, s := range chunk.Spans {
				before[int(s.Stream)] = append(before[int(s.Stream)], s.Data...)
			}
		}
	}
	var list []view.Span
	for _, s := range w.Spans {
		i := slices.IndexFunc(list, func(o view.Span) bool { return o.Section == s.Section })
		if i < 0 {
			i = len(list)
			list = append(list, view.Span{Section: s.Section})
		}
		list[i].Data = append(list[i].Data, s.Data...)
	}
	for i, s := range list {
		if begun := view.Begun(before[s.Section], s.Data); begun != nil {
			s.Data = append(begun, s.Data...)
		} else if w.Cursor > 0 {
			s.Data = s.Data[view.Begin(s.Data, 0):]
		}
		list[i].Data = []byte(view.Text(s.Data))
	}
	return list
}

// completeLines cuts a stretch for the text view. If there is more to read and a line ends in its
// second half, it cuts after the last such line.
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
