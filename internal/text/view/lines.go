package view

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// lines collects text line by line.
type lines struct {
	text  []byte
	chars int    // the number of characters in text
	line  []rune // the line that has not ended yet

	mark bool // escape lines that would read as a section mark
	max  int  // full when text and line have more characters; < 0: never
}

func (l *lines) full() bool { return l.max >= 0 && l.chars+len(l.line) > l.max }

// add appends to the line; 0 is a blank.
func (l *lines) add(cells []rune) {
	line := append(l.line, cells...)
	for i, c := range line[len(l.line):] {
		if c == 0 {
			line[len(l.line)+i] = ' '
		}
	}
	l.line = line
}

func (l *lines) newline() {
	l.flush()
	l.text = append(l.text, '\n')
	l.chars++
}

// copyLines adds plain lines as they were written, each with its newline. It stops when l is full.
func (l *lines) copyLines(b []byte) {
	l.text = slices.Grow(l.text, len(b))
	for len(b) > 0 && !l.full() {
		n := bytes.IndexByte(b, '\n')
		line := bytes.TrimSuffix(b[:n], carriageReturn)
		b = b[n+1:]
		if l.mark && len(line) > 0 && !unlike(line[0]) && isMark(bytes.Runes(line)) {
			l.text = append(l.text, '\\')
			l.chars++
		}
		l.text = append(append(l.text, valid(line)...), '\n')
		l.chars += utf8.RuneCount(line) + 1
	}
}

var carriageReturn = []byte{'\r'}

// unlike reports whether a line that begins with c can be no mark of a section.
func unlike(c byte) bool { return c > ' ' && c < utf8.RuneSelf && c != '-' && c != '\\' }

// flush ends the line without a newline.
func (l *lines) flush() {
	if l.mark && isMark(l.line) {
		l.text = append(l.text, '\\')
		l.chars++
	}
	text := slices.Grow(l.text, len(l.line))
	for _, c := range l.line {
		text = utf8.AppendRune(text, c)
	}
	l.text, l.chars = text, l.chars+len(l.line)
	l.line = l.line[:0]
}

// Count returns n with its thousands separated, as replies show it: 181,220.
func Count[N int | int64](n N) string {
	s := strconv.FormatInt(int64(n), 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// CountOf returns n of what noun names: 1 job, 2 jobs, 3 processes.
func CountOf[N int | int64](n N, noun string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(noun, "s"):
		noun += "es"
	default:
		noun += "s"
	}
	return Count(n) + " " + noun
}

// CountAre returns CountOf with its verb: 1 job is, 2 jobs are.
func CountAre(n int, noun string) string {
	if n == 1 {
		return CountOf(n, noun) + " is"
	}
	return CountOf(n, noun) + " are"
}

// EscapeMark returns a line of text, escaped if it would read as the mark of a section.
func EscapeMark(line string) string {
	if isMark([]rune(line)) {
		return `\` + line
	}
	return line
}

// isMark reports whether a line would read as the mark of a section: words in capitals between
// dashes, with any blanks and invisible characters around them. A mark that has been escaped before
// counts too, so that escaping loses nothing.
func isMark(line []rune) bool {
	unseen := func(c rune) bool { return unicode.IsSpace(c) || unicode.Is(unicode.Cf, c) }
	first := slices.IndexFunc(line, func(c rune) bool { return !unseen(c) })
	if first < 0 || line[first] != '-' && line[first] != '\\' {
		return false
	}
	s := string(slices.DeleteFunc(slices.Clone(line[first:]), unseen))
	s = strings.TrimLeft(s, `\`)
	name := strings.Trim(s, "-")
	if name == "" || !strings.HasPrefix(s, "---") || !strings.HasSuffix(s, "---") {
		return false
	}
	return !strings.ContainsFunc(name, func(c rune) bool { return !unicode.IsUpper(c) && !unicode.IsDigit(c) && c != '_' })
}

// valid returns b with each byte that is not UTF-8 replaced by U+FFFD.
func valid(b []byte) []byte {
	if utf8.Valid(b) {
		return b
	}
	return []byte(string([]rune(string(b))))
}
