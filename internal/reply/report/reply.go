package report

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"asyncrepl/internal/text/view"
	"asyncrepl/jobs"
)

// lineMax bounds the value of a header line, in characters.
const lineMax = 300

// OneLine returns s as the value of a header line: control characters are escaped, and a long value
// is shortened.
func OneLine(s string) string { return view.Line(s, lineMax) }

// A Reply is the answer to a call: its text, which is header lines "Name: value", a blank line and
// sections, and then its blocks.
type Reply struct {
	Blocks []Block

	b     strings.Builder
	shown []jobs.Record

	confined bool // it has said what jobs can reach
}

// A Block is an image. Its data can be gone when it is read.
type Block struct {
	MIMEType string
	Size     int // bytes
	Read     func() ([]byte, error)
}

// Textf returns a reply of text alone.
func Textf(format string, a ...any) *Reply {
	r := &Reply{}
	fmt.Fprintf(&r.b, format, a...)
	return r
}

// String returns the text.
func (r *Reply) String() string { return r.b.String() }

// Chars returns how many characters the text has.
func (r *Reply) Chars() int { return chars(r.b.String()) }

// Line writes one header line, with the value as [OneLine] returns it. Trailing blanks are kept:
// they belong to a prompt.
func (r *Reply) Line(name, value string) {
	r.b.WriteString(name + ": " + OneLine(value) + "\n")
}

// Insert adds a line at the end of the header of a complete reply, or below a reply that is only
// text.
func (r *Reply) Insert(name, value string) {
	head, rest, sections := strings.Cut(r.b.String(), "\n\n")
	r.b.Reset()
	r.b.WriteString(strings.TrimSuffix(head, "\n") + "\n")
	r.Line(name, value)
	if sections {
		r.b.WriteString("\n" + rest)
	}
}

// cursor writes the cursor from which a client continues to read.
func (r *Reply) cursor(n int64) { r.Line("Cursor", strconv.FormatInt(n, 10)) }

// Processes writes a header line that names processes, if there are any.
func (r *Reply) Processes(name string, ps []jobs.Process, remark string) {
	if len(ps) > 0 {
		r.Line(name, Names(ps)+remark)
	}
}

// Denied writes a header line about connections that a proxy has refused, if there are any. It counts those
// that don't fit.
func (r *Reply) Denied(d jobs.Denied, remark string) {
	text, more := "", d.More
	for _, denial := range d.First {
		s := denial.String()
		if text != "" {
			s = "; " + s
		}
		if text != "" && chars(text)+chars(s) > deniedMax {
			more += denial.Times
			continue
		}
		text += s
	}
	if more > 0 {
		text += "; and " + view.Count(more) + " more"
	}
	if text != "" {
		r.Line("Denied", text+remark)
	}
}

// deniedMax bounds the connections that a line names, in characters. The counts of the others have room
// beside them.
const deniedMax = lineMax - 40

func (r *Reply) blank() { r.b.WriteByte('\n') }

// Body writes a blank line and then text, unchanged.
func (r *Reply) Body(text string) { r.b.WriteString("\n" + text) }

// Add appends another reply: its text, its blocks and the jobs that it shows.
func (r *Reply) Add(o *Reply) {
	r.b.WriteString(o.b.String())
	r.Blocks = append(r.Blocks, o.Blocks...)
	r.shown = append(r.shown, o.shown...)
}

// Shown returns the jobs that the reply shows besides its subject, in the state that it shows.
func (r *Reply) Shown() []jobs.Record { return r.shown }

// section writes a section unless it is empty. No line of its text may look like a section mark.
func (r *Reply) section(name, text string) {
	if text == "" {
		return
	}
	if !strings.Contains(r.b.String(), "\n--- ") {
		r.blank()
	}
	r.b.WriteString("--- " + name + " ---\n" + text)
	if !strings.HasSuffix(text, "\n") {
		r.blank()
	}
}

// Names lists processes: "npm (pid 812), node (pid 813)".
func Names(ps []jobs.Process) string {
	const most = 8
	list := make([]string, 0, len(ps))
	for i, p := range ps {
		if i == most {
			list = append(list, fmt.Sprintf("%d more", len(ps)-most))
			break
		}
		list = append(list, p.String())
	}
	return strings.Join(list, ", ")
}

func chars(s string) int { return utf8.RuneCountInString(s) }

// Duration returns d in few characters: 0.02s, 4.2s, 3m12s, 2h5m.
func Duration(d time.Duration) string {
	switch {
	case d < time.Second:
		return strconv.FormatFloat(max(0, d.Seconds()), 'f', 2, 64) + "s"
	case d < time.Minute:
		return strconv.FormatFloat(d.Truncate(100*time.Millisecond).Seconds(), 'f', 1, 64) + "s"
	case d < time.Hour:
		return fmt.Sprintf("%dm%ds", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%dh%dm", int(d.Hours()), int(d.Minutes())%60)
}
