package view

// Text returns what b reads as: escape sequences stripped, progress folded to its last state, invalid UTF-8 replaced.
func Text(b []byte) string { return string(b) }

// Line returns s as one header value of at most max characters, control characters escaped.
func Line(s string, max int) string { return s }

// LastLine returns the line that the cursor stands in: a prompt.
func LastLine(b []byte) string { return string(b) }

// Whole returns how much of b may be shown without ending inside a character or an escape sequence; all of it when final.
func Whole(b []byte, final bool) int { return len(b) }

// Begin returns the first offset of b at or after at that is inside no character and no escape sequence.
func Begin(b []byte, at int) int { return at }

// Escape puts a backslash before each line of s that would read as a section mark of a reply.
func Escape(s string) string { return s }
