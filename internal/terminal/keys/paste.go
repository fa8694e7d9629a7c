package keys

import (
	"errors"
	"strings"
	"unicode"
)

// ErrPasteControl is the error of a paste that holds control characters. One of them could end the
// brackets, so that a program would take the rest for typed, and the terminal acts on others.
var ErrPasteControl = errors.New("pasted text holds control characters")

// Paste returns what a terminal sends when text is pasted: its lines end as with Enter, and it is in
// brackets if the program asked for them.
func Paste(text string, m Modes) (string, error) {
	text = strings.NewReplacer("\r\n", "\r", "\n", "\r").Replace(text)
	if strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) && r != '\r' && r != '\t' }) {
		return "", ErrPasteControl
	}
	if m.BracketedPaste {
		text = csi + "200~" + text + csi + "201~"
	}
	return text, nil
}
