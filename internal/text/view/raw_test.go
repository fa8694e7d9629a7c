package view

import (
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestRaw(t *testing.T) {
	for in, want := range map[string]string{
		"plain ä\t日\n":       `plain ä\t日\n` + "\n",
		"a\r\nb\x1b[31m\x00": `a\r\n` + "\n" + `b\x1b[31m\x00`,
		`C:\new`:             `C:\\new`,
		"\xff\xc3\u0085":     `\xff\xc3\u0085`,
		"\u00ad\u202e\x7f":   `\u00ad\u202e\x7f`,
		"--- STDOUT ---":     `\x2d-- STDOUT ---`,
		"--- STDOUT ---\n":   `--- STDOUT ---\n` + "\n",
		"":                   "",
	} {
		got := Clip(one(0, in), Stretch{}, Budget{Max: 1000, Raw: true})
		if len(got.Sections) == 0 || got.Sections[0].Head != want {
			t.Errorf("%q: got %q, want %q", in, got.Sections, want)
		}
	}
}

// FuzzRaw: the raw view of any bytes is text that they can be read from again, and keeps its budget.
func FuzzRaw(f *testing.F) {
	for _, s := range []string{"a\r\nb", "\x1b[31mx\xff\\", "--- STDOUT ---", "\u0085\u00ad\U000e0041", "\xc3"} {
		f.Add([]byte(s), uint8(3))
	}
	f.Fuzz(func(t *testing.T, b []byte, budget uint8) {
		text, chars := raw(b, 1<<30)
		checkReadable(t, string(text))
		if n := utf8.RuneCount(text); n != chars {
			t.Fatalf("%d characters are counted as %d", n, chars)
		}
		back, err := strconv.Unquote(`"` + strings.NewReplacer("\n", "", `"`, `\"`).Replace(string(text)) + `"`)
		if err != nil || back != string(b) {
			t.Fatalf("%q reads as %q, %v", text, back, err)
		}
		most := int(budget) + 1
		page := Clip(Stretch{Cursor: 0, Spans: []Span{{0, b}}}, Stretch{}, Budget{Head: most / 2, Max: most, Raw: true})
		shown := 0
		for _, s := range page.Sections {
			shown += utf8.RuneCountInString(s.Head) + utf8.RuneCountInString(s.Tail)
		}
		if shown > most && len(b) > 0 && shown > 10 {
			t.Fatalf("%d characters with a budget of %d", shown, most)
		}
	})
}
