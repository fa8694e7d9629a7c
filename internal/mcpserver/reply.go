package mcpserver

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"asyncrepl/internal/view"
	"asyncrepl/jobs"
)

// lineMax is the length of a header's value, in characters.
const lineMax = 300

// headerValue is s as it may stand in one line.
func headerValue(s string) string { return view.Line(s, lineMax) }

// A reply is the answer to a call. Its text comes first: lines "Name: value", a blank line, sections.
// Its blocks follow.
type reply struct {
	b      strings.Builder
	blocks []block
	shown  []jobs.Info // jobs that it says something of besides those that it is about
}

// A block is an image.
type block struct {
	mimeType string
	data     []byte
}

// replyf returns a reply of text alone.
func replyf(format string, a ...any) *reply {
	r := &reply{}
	fmt.Fprintf(&r.b, format, a...)
	return r
}

func (r *reply) String() string { return r.b.String() }

func (r *reply) chars() int { return chars(r.b.String()) }

// line writes one header. Its value is kept to one line, trailing blanks and
// all: they belong to a prompt.
func (r *reply) line(name, value string) {
	r.b.WriteString(name + ": " + headerValue(value) + "\n")
}

// cursor writes the number from which a client reads on.
func (r *reply) cursor(n int64) { r.line("Cursor", strconv.FormatInt(n, 10)) }

// processes names processes, if there are any.
func (r *reply) processes(name string, ps []jobs.Process, remark string) {
	if len(ps) > 0 {
		r.line(name, names(ps)+remark)
	}
}

func (r *reply) blank() { r.b.WriteByte('\n') }

// text writes a line as it is.
func (r *reply) text(s string) { r.b.WriteString(s + "\n") }

// section writes a section, unless it is empty. Its text holds no line that
// reads as a section mark.
func (r *reply) section(name, text string) {
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

// names lists processes: "npm (pid 812), node (pid 813)".
func names(ps []jobs.Process) string {
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

// duration writes d as a person would say it: 0.02s, 4.2s, 3m12s, 2h5m.
func duration(d time.Duration) string {
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
