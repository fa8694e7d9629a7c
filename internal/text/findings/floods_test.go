package findings

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"asyncrepl/internal/text/view"
)

// A flood is what one program printed, see testdata/floods.txt.
type flood struct {
	name   string
	noise  []string // lines that it repeats, with %d for a number
	around []string // the other lines, in their order
	errors []string // the text of those of them that are errors
}

// floods returns the floods of testdata.
func floods(t testing.TB) (list []flood) {
	t.Helper()
	b, err := os.ReadFile("testdata/floods.txt")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), "\n-- ")
	for _, part := range strings.Split(rest, "\n-- ") {
		name, text, _ := strings.Cut(part, " --\n")
		f := flood{name: name}
		for line := range strings.Lines(strings.NewReplacer("␛", "\x1b", "␍", "\r").Replace(text)) {
			switch line = strings.TrimSuffix(line, "\n"); {
			case strings.HasPrefix(line, "~ "):
				f.noise = append(f.noise, line[2:])
			case strings.HasPrefix(line, "! "):
				f.around = append(f.around, line[2:])
				f.errors = append(f.errors, shown(line[2:]))
			default:
				f.around = append(f.around, strings.TrimPrefix(line, "  "))
			}
		}
		list = append(list, f)
	}
	return list
}

// shown returns a line as a finding shows it.
func shown(line string) string {
	return view.Line(strings.TrimRight(view.Text([]byte(line)), "\n"), textMax)
}

// text returns the output of the program, with lines of noise before and after the others, and
// where these begin and end.
func (f flood) text(lines int, newline string) (text string, begin, end int64) {
	var b strings.Builder
	noise := func(from int) {
		for i := range lines {
			b.WriteString(strings.ReplaceAll(f.noise[i%len(f.noise)], "%d", fmt.Sprint(from+i)) + newline)
		}
	}
	noise(0)
	begin = int64(b.Len())
	b.WriteString(strings.Join(f.around, newline) + newline)
	end = int64(b.Len())
	noise(lines)
	return b.String(), begin, end
}

// Of each flood the errors are found, and nothing that stands apart from them.
func TestFloods(t *testing.T) {
	list := floods(t)
	if len(list) < 20 {
		t.Errorf("only %d floods", len(list))
	}
	for _, f := range list {
		t.Run(f.name, func(t *testing.T) {
			text, begin, end := f.text(300, "\n")
			var got []string
			for _, each := range found(text) {
				got = append(got, each.Text)
				if each.At < begin || each.At >= end {
					t.Errorf("%q is no error", each.Text)
				}
			}
			for _, want := range f.errors {
				if !slices.Contains(got, want) {
					t.Errorf("not found: %q; found %q", want, got)
				}
			}
		})
	}
}
