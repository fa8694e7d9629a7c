package view

import (
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// screens keeps the rows of unused screens, because Clip renders a page several times.
var screens = sync.Pool{New: func() any { return new(screen) }}

// render draws b and collects the text that results.
func render(b []byte, l lines) lines {
	s := screens.Get().(*screen)
	defer screens.Put(s)
	l.line = s.out.line[:0]
	s.reset(l)
	s.write(b)
	s.finish()
	l = s.out
	s.out = lines{line: l.line[:0]}
	return l
}

// Text returns the text of b: escape sequences stripped, progress folded to its last state, CRLF as
// LF, other control characters except tab removed, bytes that are not UTF-8 replaced by U+FFFD.
func Text(b []byte) string {
	return string(render(b, lines{max: -1}).text)
}

// lastLineBytes is how many bytes LastLine reads at the end: more than a prompt has, with all its
// colours.
const lastLineBytes = 16 << 10

// LastLine returns the line that the cursor is in after b: a prompt, if the program waits. It is
// empty after a newline.
func LastLine(b []byte) string {
	if skip := len(b) - lastLineBytes; skip > 0 {
		b = b[Begin(b[skip:], 0)+skip:]
	}
	s := screens.Get().(*screen)
	defer screens.Put(s)
	s.reset(lines{line: s.out.line[:0], max: -1})
	s.write(b)
	return string(s.cursorLine())
}

// PromptBytes is how many bytes of the newest output Prompt needs, to find the start of a full
// screen.
const PromptBytes = 256 << 10

// Prompt returns the line that the cursor is in after b, or nothing if a program draws on all of the
// screen.
func Prompt(b []byte) string {
	if FullScreen(b) {
		return ""
	}
	return LastLine(b)
}

// Line returns s as the value of a header: one line of at most limit characters, with control
// and format characters escaped and blanks at its end kept.
func Line(s string, limit int) string {
	var b strings.Builder
	n, keep := 0, 0 // characters, and the bytes of those that leave room for an ellipsis
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		piece := s[i : i+size]
		switch {
		case r == utf8.RuneError && size == 1:
			piece = "\uFFFD"
		case misleads(r):
			piece = escaped(r)
		}
		b.WriteString(piece)
		n += utf8.RuneCountInString(piece)
		if n > limit {
			return b.String()[:keep] + "…"
		}
		if n < limit {
			keep = b.Len()
		}
		i += size
	}
	return b.String()
}

// misleads reports whether a character in a line would hide itself, or change the order of others
// or the line. The two joiners don't count: scripts and emoji are written with them.
func misleads(r rune) bool {
	switch r {
	case '\u200c', '\u200d':
		return false
	case '\u2028', '\u2029':
		return true
	}
	return unicode.IsControl(r) || unicode.Is(unicode.Cf, r)
}

// escaped returns a control or format character as it is written in a string literal of Python and
// Go.
func escaped(r rune) string {
	switch r {
	case '\n':
		return `\n`
	case '\r':
		return `\r`
	case '\t':
		return `\t`
	}
	const hex = "0123456789abcdef"
	if r < 0x100 {
		return `\x` + string([]byte{hex[r>>4], hex[r&15]})
	}
	quoted := strconv.QuoteRuneToASCII(r)
	return quoted[1 : len(quoted)-1]
}

// titleLen bounds a title, in characters.
const titleLen = 100

// Title returns the first line of s that is not blank, for lists.
func Title(s string) string {
	s = strings.TrimSpace(s)
	first, rest, _ := strings.Cut(s, "\n")
	first = strings.TrimRight(first, " \t\r")
	if r := []rune(first); len(r) > titleLen {
		return string(r[:titleLen-1]) + "…"
	}
	if rest != "" {
		return first + " …"
	}
	return first
}
