// Package callstack describes where a program is, in one line and as a list of its calls. Names and
// source come from the program, and may be anything.
package callstack

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"asyncrepl/internal/text/view"
)

// A Looker shows where a running program is. Several goroutines can use it at once.
type Looker interface {
	// Look returns the present stack, and remembers it for the next look.
	Look() (Stack, error)
}

// ErrSaid means that there is no look, for a reason that an earlier call has returned.
var ErrSaid = errors.New("no look is possible, as was said before")

// A Stack is the calls of a thread.
type Stack struct {
	Calls  []Call // outermost first
	Outer  int    // further calls, outside of these
	More   bool   // there are more than Outer
	Awaits bool   // the innermost one waits for an event loop

	Outside string // the program's place, in words, if there are no calls
	Stopped bool   // a signal has stopped it
	Since   Since
	Own     string // the file name of the code that the program was given last
}

// A Call is a function at work.
type Call struct {
	File, Function string
	Line           int    // 0: unknown
	Source         string // the text of the line; empty: it must not be shown
}

// Since says what happened since the last look.
type Since int

const (
	First  Since = iota // there was none
	Moved               // the program is at another instruction
	Still               // it is at the same one, and proven not to have run
	Same                // it is at the same one, and nothing more is known
	Worked              // it is at the same one, and has run: in a loop, or in C code
)

var sinceText = [...]string{
	Moved:  "moved since the last look",
	Still:  "not moved since the last look",
	Same:   "in the same place as at the last look",
	Worked: "in the same place as at the last look, but running",
}

// textMax bounds each name and line, in characters: generated code can have lines of megabytes.
const textMax = 200

// Describe takes a look, and returns it as one line and as a list of at most room characters.
// Either is empty if there is nothing to say.
func Describe(l Looker, room int) (line, list string) {
	s, err := l.Look()
	switch {
	case errors.Is(err, ErrSaid):
		return "", ""
	case err != nil:
		return "unknown, because " + err.Error(), ""
	}
	return s.line(), s.list(room)
}

// At returns the place of a call, such as "train.py:41 in step". own is the file name of the code that
// the program was given last.
func (c Call) At(own string) string {
	switch place := filepath.Base(c.File); {
	case c.Line <= 0:
		return fmt.Sprintf("%s in %s", place, c.Function)
	case c.File == own:
		return fmt.Sprintf("line %d in %s", c.Line, c.Function)
	default:
		return fmt.Sprintf("%s:%d in %s", place, c.Line, c.Function)
	}
}

// line returns the innermost call, such as "train.py:41 in step (moved since the last look)".
func (s Stack) line() string {
	at := s.Outside
	if n := len(s.Calls); n > 0 {
		at = s.Calls[n-1].At(s.Own)
	}
	var remarks []string
	if s.Awaits {
		remarks = append(remarks, "it awaits")
	}
	if s.Stopped {
		remarks = append(remarks, "stopped by a signal")
	}
	if s.Since != First {
		remarks = append(remarks, sinceText[s.Since])
	}
	if remarks != nil {
		at += " (" + strings.Join(remarks, "; ") + ")"
	}
	return at
}

// list returns as many calls as there is room for, the innermost ones, in the order of a traceback.
func (s Stack) list(room int) string {
	var texts []string // innermost first
	left := len(s.Calls)
	for left > 0 {
		c := s.Calls[left-1]
		same := 1
		for same < left && s.Calls[left-1-same] == c {
			same++
		}
		text := c.text(same)
		if room -= utf8.RuneCountInString(text); room < 0 {
			break
		}
		texts = append(texts, text)
		left -= same
	}
	if texts == nil {
		return ""
	}
	var b strings.Builder
	if n := left + s.Outer; n > 0 {
		more := ""
		if s.More {
			more = "more than "
		}
		fmt.Fprintf(&b, "(%s%d outer calls are not shown)\n", more, n)
	}
	for i := len(texts) - 1; i >= 0; i-- {
		b.WriteString(texts[i])
	}
	return b.String()
}

// text returns the lines of a call that there are several of in a row.
func (c Call) text(same int) string {
	text := "File " + view.Line(`"`+c.File+`"`, textMax)
	if c.Line > 0 {
		text += fmt.Sprintf(", line %d", c.Line)
	}
	text += ", in " + view.Line(c.Function, textMax)
	if same > 1 {
		text += fmt.Sprintf(" (%d calls)", same)
	}
	if c.Source != "" {
		text += "\n  " + view.Line(c.Source, textMax)
	}
	return text + "\n"
}
