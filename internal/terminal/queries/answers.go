//go:build unix

package queries

import (
	"fmt"

	"asyncrepl/internal/text/escape"
)

// What the terminal says of itself. It claims no more than a screen of internal/text/screen can draw: an
// xterm that is set to be a VT220, with colours. Its patch is the last one before programs ask an
// xterm for texts (XTGETTCAP), which are never answered.
const (
	isAttributes = "\x1b[?62;22c"
	isVersion    = "\x1b[>1;140;0c"
	isWell       = "\x1b[0n"
	isLight      = "rgb:ffff/ffff/ffff" // the foreground
	isDark       = "rgb:0000/0000/0000"
)

// answer words the answer to a query, or returns "" if it has no answer. cursor and mode are called
// if the query asks for them.
func (q query) answer(cursor func() (row, col int, ok bool), mode func(escape.Mode) escape.Setting) string {
	switch q.kind {
	case attributes:
		return isAttributes
	case version:
		return isVersion
	case status:
		return isWell
	case position, extended:
		row, col, ok := cursor()
		switch {
		case !ok:
			return ""
		case q.kind == extended:
			return fmt.Sprintf("\x1b[?%d;%dR", row, col)
		}
		return fmt.Sprintf("\x1b[%d;%dR", row, col)
	case modeSetting:
		prefix := ""
		if q.mode.Private {
			prefix = "?"
		}
		return fmt.Sprintf("\x1b[%s%d;%d$y", prefix, q.mode.Number, mode(q.mode))
	case foreground:
		return "\x1b]10;" + isLight + q.end()
	case background:
		return "\x1b]11;" + isDark + q.end()
	}
	return ""
}

// end returns what ends the answer to a query for a colour.
func (q query) end() string {
	if q.bel {
		return "\a"
	}
	return "\x1b\\"
}
