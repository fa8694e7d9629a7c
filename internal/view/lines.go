package view

import (
	"strconv"
	"unicode"
	"unicode/utf8"
)

// lines collects text line by line.
type lines struct {
	text  []byte
	chars int    // in text
	line  []rune // the line that is not ended yet
	cut   int    // characters that have been taken out of its middle

	clamp int  // longest line; 0: no limit
	mark  bool // escape what would read as a section mark
	max   int  // full when text has more; < 0: never
}

// markRoom is the part of a clamped line that is left for the count of what is not shown.
const markRoom = 40

func (l *lines) full() bool { return l.max >= 0 && l.chars > l.max }

// add appends to the line; 0 is a blank. A clamped line never holds much more than it will show.
func (l *lines) add(cells []rune) {
	for _, c := range cells {
		if c == 0 {
			c = ' '
		}
		l.line = append(l.line, c)
	}
	if l.clamp > 0 && len(l.line) > 4*l.clamp {
		l.shorten()
	}
}

// shorten takes the middle out of the line.
func (l *lines) shorten() {
	keep := l.clamp - markRoom
	head, tail := keep-keep/2, keep/2
	l.cut += len(l.line) - keep
	l.line = append(l.line[:head], l.line[len(l.line)-tail:]...)
}

func (l *lines) newline() {
	l.flush()
	l.text = append(l.text, '\n')
	l.chars++
}

// flush ends the line without a newline.
func (l *lines) flush() {
	cutAt := -1
	if l.clamp > 0 && (l.cut > 0 || len(l.line) > l.clamp) {
		l.shorten()
		cutAt = len(l.line) - len(l.line)/2
	}
	if l.mark && isMark(l.line) {
		l.text = append(l.text, '\\')
		l.chars++
	}
	for i, c := range l.line {
		if i == cutAt {
			note := "[… " + Count(l.cut) + " characters …]"
			l.text = append(l.text, note...)
			l.chars += utf8.RuneCountInString(note)
		}
		l.text = utf8.AppendRune(l.text, c)
	}
	l.chars += len(l.line)
	l.line, l.cut = l.line[:0], 0
}

// Count returns n with its thousands apart, as replies show it: 181,220.
func Count[N int | int64](n N) string {
	s := strconv.FormatInt(int64(n), 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// isMark tells whether a line would read as the mark of a section: words in capitals between dashes, whatever blanks and
// invisible characters stand around them. A mark that has been escaped before counts too, so that escaping loses nothing.
func isMark(line []rune) bool {
	const (
		before = iota // backslashes and blanks
		opening
		name
		closing
	)
	state, dashes, letters := before, 0, 0
	for _, c := range line {
		switch {
		case unicode.IsSpace(c) || unicode.Is(unicode.Cf, c):
			// Blanks are allowed everywhere, and invisible characters are not seen.
		case c == '\\' && state == before:
		case c == '-' && state <= opening:
			state, dashes = opening, dashes+1
		case c == '-':
			if state == name {
				dashes = 0
			}
			state, dashes = closing, dashes+1
		case unicode.IsUpper(c) || unicode.IsDigit(c) || c == '_':
			if state == closing || dashes < 3 {
				return false
			}
			state, letters = name, letters+1
		default:
			return false
		}
	}
	return state == closing && dashes >= 3 && letters > 0
}
