package progress

import (
	"slices"
	"strings"

	"asyncrepl/internal/output"
	"asyncrepl/internal/view"
)

// tailBytes is how many bytes at the end of a log a Tail holds.
const tailBytes = 4 << 10

// A Tail is the text of the newest output of a log.
type Tail struct {
	texts []string // of each stream, that of the stream that was written last first
}

// TailOf returns the tail of a log. It costs the same however long the log is.
func TailOf(log output.Reader) Tail {
	end := log.Stat().End
	at := max(0, end-tailBytes)
	torn := at > 0
	data := map[output.Stream][]byte{}
	var order []output.Stream // the newest last
	for at < end {
		c := log.Read(at, int(end-at))
		if c.Dropped > 0 {
			clear(data)
			order, torn = nil, true
		}
		for _, s := range c.Spans {
			data[s.Stream] = append(data[s.Stream], s.Data...)
			order = append(slices.DeleteFunc(order, func(o output.Stream) bool { return o == s.Stream }), s.Stream)
		}
		if c.Next == c.From {
			break
		}
		at = c.Next
	}
	var t Tail
	for _, stream := range slices.Backward(order) {
		b := data[stream]
		if torn {
			b = b[view.Begin(b, 0):]
		}
		t.texts = append(t.texts, view.Text(b))
	}
	return t
}

// Line returns the last line that is not blank, of the stream that was written last.
func (t Tail) Line() string {
	if len(t.texts) == 0 {
		return ""
	}
	text := strings.TrimSpace(t.texts[0])
	return strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:])
}

// Bar returns the last bar of the stream that was written last and has one.
func (t Tail) Bar() (b Bar, ok bool) {
	for _, text := range t.texts {
		if b, ok = Last(text); ok {
			return b, true
		}
	}
	return b, false
}
