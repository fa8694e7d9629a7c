package search

import (
	"fmt"
	"strings"
	"testing"

	"asyncrepl/internal/output"
)

// Around shows a line as a search that finds it does, wherever it is in a flood. A part of a line is
// not shown.
func TestAround(t *testing.T) {
	t.Parallel()
	flood := strings.Repeat(strings.Repeat("x", 199)+"\n", 1000)
	for name, text := range map[string]string{
		"in the middle":    "a\nb\nc\nit\nd\ne\nf\n",
		"first":            "it\nd\n",
		"last, unfinished": "a\nit",
		"alone":            "it\n",
		"coloured":         "\x1b[31ma\x1b[0m\r\nit\r\n\x1b[1md",
		"drawn over":       "a\n10%\r20%\rit!\nd\n",
	} {
		for _, before := range []string{"", flood} {
			for _, after := range []string{"", flood} {
				t.Run(fmt.Sprintf("%s, %d bytes before, %d after", name, len(before), len(after)), func(t *testing.T) {
					log := newLog()
					for _, piece := range []string{before, text, after} {
						log.Write(output.TTY, []byte(piece))
						log.Write(output.Stderr, []byte("aside\n"))
					}
					found := run(t, log, Query{Pattern: compile(t, "it"), Context: 2}).Matches
					var want strings.Builder
					(&writer{}).group(&want, found)
					if strings.Count(want.String(), "\n") == 1 {
						want.Reset()
					}
					if got := Around(log, found[0].Line, 2); got != want.String() {
						t.Errorf("it shows:\n%s\na search shows:\n%s", got, want.String())
					}
				})
			}
		}
	}
}
