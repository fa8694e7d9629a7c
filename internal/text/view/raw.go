package view

import (
	"strings"
	"unicode/utf8"
)

// raw returns b with all that is not printable escaped as in a string literal, and with a line break
// after each newline. It stops when it has more than budget characters.
func raw(b []byte, budget int) (text []byte, chars int) {
	line := 0 // the offset of the last line of text
	for i := 0; i < len(b) && chars <= budget; {
		r, n := utf8.DecodeRune(b[i:])
		at := len(text)
		switch {
		case r == '\n':
			text = append(text, '\\', 'n', '\n')
			line = len(text)
		case r == '\\':
			text = append(text, '\\', '\\')
		case r == utf8.RuneError && n == 1:
			text = append(text, escaped(rune(b[i]))...)
		case r >= utf8.RuneSelf && !misleads(r), r >= ' ' && r < 0x7f:
			text = append(text, b[i:i+n]...)
		case r >= utf8.RuneSelf && r < 0x100: // a character of two bytes, not one of these
			text = append(text, `\u00`...)
			text = append(text, strings.TrimPrefix(escaped(r), `\x`)...)
		default:
			text = append(text, escaped(r)...)
		}
		chars += utf8.RuneCount(text[at:])
		i += n
	}
	if isMark([]rune(string(text[line:]))) { // a complete line is no mark, because it ends with \n
		rest := string(text[line:])
		first := strings.IndexByte(rest, '-')
		text = append(append(text[:line:line], rest[:first]...), `\x2d`+rest[first+1:]...)
		chars += 3
	}
	return text, chars
}
