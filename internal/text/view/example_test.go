package view_test

import (
	"fmt"
	"strings"

	"asyncrepl/internal/text/view"
)

// Text is the text that a terminal would show in the end: without colours, and with a progress bar
// in its last state.
func ExampleText() {
	raw := "\x1b[1mfetching\x1b[0m\r\n 10%\r 55%\r100%\r\n\x1b[31mdone\x1b[0m\r\n"
	fmt.Print(view.Text([]byte(raw)))
	// Output:
	// fetching
	// 100%
	// done
}

// A window of a log is clipped to 300 characters: head and tail in full lines, and the cursors
// between which bytes are left out.
func ExampleClip() {
	var raw strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&raw, "line %d\n", i)
	}
	log := view.Stretch{Cursor: 0, Spans: []view.Span{{Section: 0, Data: []byte(raw.String())}}}
	page := view.Clip(log, view.Stretch{}, view.Budget{Head: 20, Max: 300})
	fmt.Printf("%q\n", page.Sections[0].Head)
	tail := strings.SplitAfter(page.Sections[0].Tail, "\n")
	fmt.Printf("%q\n", tail[len(tail)-2])
	fmt.Printf("%s bytes left out, cursor %d..%d of %d\n", view.Count(page.Omitted()), page.From, page.To, log.End())
	// Output:
	// "line 0\nline 1\n"
	// "line 999\n"
	// 8,597 bytes left out, cursor 14..8611 of 8890
}
