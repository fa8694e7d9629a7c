package search

import (
	"strings"

	"asyncrepl/internal/output"
	"asyncrepl/internal/text/lines"
)

// aroundBytes is how far from a line Around looks for the lines before and after it.
const aroundBytes = 16 << 10

// Around returns a line that was found in a log, and at most n lines before and after it in the same
// section, as a search shows them. It returns the empty string if there are no such lines.
func Around(log output.Reader, line Line, n int) string {
	m := &Match{Line: line}
	from := max(0, line.At-aroundBytes)
	torn := from > 0 // the first line can begin before from
	pass := func(b lines.Block) {
		if b.Section != line.Section {
			return
		}
		for at := 0; at < len(b.Text); {
			_, end, next := b.Bounds(at)
			l := Line{Section: b.Section, At: b.Cursor(at), Text: excerpt(b.Text[at:end], nil)}
			at = next
			switch {
			case torn:
				torn = false
			case l.At < line.At:
				m.Before = append(m.Before[max(0, len(m.Before)-n+1):], l)
			case l.At > line.At && len(m.After) < n:
				m.After = append(m.After, l)
			}
		}
	}
	scanner := lines.NewScanner(log, from, pass)
	to := min(line.At+aroundBytes, log.Stat().End)
	for scanner.Read(to) {
	}
	scanner.Pending(pass)
	if len(m.Before)+len(m.After) == 0 {
		return ""
	}
	var text strings.Builder
	for _, l := range m.Before {
		l.write(&text, '-')
	}
	m.write(&text, ':')
	for _, l := range m.After {
		l.write(&text, '-')
	}
	return text.String()
}
