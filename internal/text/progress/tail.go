package progress

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"asyncrepl/internal/output"
	"asyncrepl/internal/text/view"
)

// tailBytes is how many bytes at the end of a log a Tail holds, so that a status costs the same for
// a log of any size.
const tailBytes = 4 << 10

// A Tail is the text of the newest output of a log.
type Tail struct {
	streams []stream // the one written last comes first
}

// A stream is the newest output of one stream of a log.
type stream struct {
	data   []byte
	recent int  // bytes at the end of data that can be younger than output.Recent
	below  bool // another stream has text after all of data
}

// TailOf returns the tail of a log at the time now, without what stands before the cursor from. It
// costs the same however long the log is.
func TailOf(log output.Reader, from int64, now time.Time) Tail {
	end, old := log.Stat().End, log.Before(now.Add(-output.Recent))
	at := max(from, end-tailBytes)
	torn := at > from
	data := map[output.Stream]*stream{}
	var order []output.Stream // the newest last
	for at < end {
		c := log.Read(at, int(end-at))
		if c.Dropped > 0 {
			clear(data)
			order, torn = nil, true
		}
		begin := c.From
		for _, s := range c.Spans {
			if data[s.Stream] == nil {
				data[s.Stream] = &stream{}
			}
			if len(bytes.TrimSpace(s.Data)) > 0 {
				for _, other := range data {
					other.below = true
				}
			}
			d := data[s.Stream]
			d.data, d.below = append(d.data, s.Data...), false
			begin += int64(len(s.Data))
			d.recent += int(min(int64(len(s.Data)), max(0, begin-old)))
			order = append(slices.DeleteFunc(order, func(o output.Stream) bool { return o == s.Stream }), s.Stream)
		}
		if c.Next == c.From {
			break
		}
		at = c.Next
	}
	var t Tail
	for _, name := range slices.Backward(order) {
		s := data[name]
		if torn {
			s.data = s.data[view.Begin(s.data, 0):]
			s.recent = min(s.recent, len(s.data))
		}
		t.streams = append(t.streams, *s)
	}
	return t
}

// Line returns the last line that is not blank, of the stream that was written last.
func (t Tail) Line() string {
	if len(t.streams) == 0 {
		return ""
	}
	text := strings.TrimSpace(view.Text(t.streams[0].data))
	return strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:])
}

// Bar returns the last bar of the stream that was written last and has one. A bar that was not drawn
// again for [output.Recent], while newer lines stand below it, is gone: its work is over, or nothing
// says how far it is.
func (t Tail) Bar() (b Bar, ok bool) {
	for _, s := range t.streams {
		text, recent := view.Text(s.data), s.data[len(s.data)-s.recent:]
		if b, below, ok := last(text); ok {
			if !below && !s.below {
				return b, true
			}
			if _, ok := Last(view.Text(recent)); ok {
				return b, true
			}
		}
		if b, key, below, ok := counted(states(s.data, text)); ok && (!below && !s.below || hasCount(states(recent, view.Text(recent)), key)) {
			return b, true
		}
	}
	return b, false
}
