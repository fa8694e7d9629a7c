package keys

import "asyncrepl/internal/text/escape"

// Modes are the modes of a terminal that change what its keyboard sends. A new terminal has the
// zero Modes.
type Modes struct {
	ApplicationCursor bool // the cursor keys have their other form
	BracketedPaste    bool // pasted text comes in brackets
}

// ModesOf returns the modes that the output of a terminal's programs has set.
func ModesOf(m *escape.Modes) Modes {
	return Modes{
		ApplicationCursor: m.Setting(escape.ApplicationCursor) == escape.Set,
		BracketedPaste:    m.Setting(escape.BracketedPaste) == escape.Set,
	}
}
