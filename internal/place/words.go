package place

import (
	"errors"
	"unicode/utf8"

	"asyncrepl/internal/place/carry"
	"asyncrepl/internal/text/view"
)

// line makes text of another machine one line of ours.
func line(s string) string { return view.Line(s, lineMax) }

// lineMax bounds text of another machine in a line of ours, in characters.
const lineMax = 500

// whyLine is line for the error of an attempt to open a link. What helps is at its end, so a long text of ssh is cut
// instead, and keeps its own end.
func whyLine(err error) string {
	e, ok := errors.AsType[*carry.Error](err)
	if !ok {
		return line(err.Error())
	}
	short := *e
	text, room := []rune(e.Text), max(lineMax/4, lineMax-utf8.RuneCountInString(e.Cure))
	if len(text) > room {
		short.Text = "…" + string(text[len(text)-room+1:])
	}
	return view.Line(short.Error(), 2*lineMax)
}
