package view

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"asyncrepl/internal/test/racetest"
)

// An inOut has the rows of a test of a function that makes one text of another.
type inOut map[string]struct{ in, want string }

func (rows inOut) check(t *testing.T, f func(in string) string) {
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			if got := f(row.in); got != row.want {
				t.Errorf("%q:\n got %q\nwant %q", row.in, got, row.want)
			}
		})
	}
}

func TestText(t *testing.T) {
	const up, erase = "\x1b[1A", "\x1b[2K"
	vite := strings.Repeat("\n", 39) + "\x1b[1;1H\x1b[0J" // vite clears a screen of 40 rows so
	inOut{
		"plain":                    {"a b \tc  \n\n d", "a b \tc  \n\n d"},
		"crlf":                     {"one\r\ntwo\r\n", "one\ntwo\n"},
		"colour":                   {"\x1b[1;31merror\x1b[0m: x\n", "error: x\n"},
		"colour with colons":       {"\x1b[38:2::1:2:3mx\x1b[m", "x"},
		"more parameters than 32":  {"\x1b[" + strings.Repeat("1;", 99) + "mx", "x"},
		"title":                    {"\x1b]0;make: all\x07$ ", "$ "},
		"link":                     {"\x1b]8;;https://go.dev\x1b\\Go\x1b]8;;\x1b\\", "Go"},
		"title in UTF-8":           {"\x1b]0;\u201ca\u201d\u009c\x07x", "x"},
		"sixel":                    {"a\x1bPq#0;2;0\n#0~~\n\x1b\\b", "ab"},
		"image of several lines":   {"\x1b]1337;File=:AAAA\nBBBB\n\x07x", "x"},
		"stray string start":       {"a\x1b]b\nc\nd\x07", "a\nc\nd"},
		"stray DCS":                {"a\x1bPb\nc\nd", "a\nc\nd"},
		"string cut by a sequence": {"\x1bPb\nc\x1b[1md", "\ncd"},
		"character sets":           {"\x1b(B\x0fa\x0eb\x1b)0c", "ab␌"},
		"line drawing":             {"\x1b(0lqk_\x1b(Blqk\n\x1b(0x é1\x1b(B\n", "┌─┐ lqk\n│ é1\n"},
		"line drawing by SO":       {"\x1b)0lq\x0elqk\x0fk\n", "lq┌─┐k\n"},
		"line drawing and a reset": {"\x1b(0q\x1bcq", "─\nq"},
		"a line that is repeated":  {"\x1b(0lq\x1b[3bk\x1b(B\nab\x1b[bc\x1b[2;1H\x1b[9b-", "┌────┐\nabbc\n\n-"},
		"drawn over lines":         {"\x1b(0qqqq\rx\x1b(Bx\n", "│x──\n"},
		"many drawn lines":         {"\x1b(0" + strings.Repeat("x\n", 20<<10) + "\x1b(Bx\n", strings.Repeat("│\n", 20<<10) + "x\n"},
		"keypad":                   {"\x1b=a\x1b>b", "ab"},
		"C1 in UTF-8":              {"a\u009b31mb\u0085c", "abc"},
		"C0":                       {"a\x00b\x07c\x7fd\ve\ff", "abcdef"},
		"broken sequence":          {"a\x1b[12\nb\x1b\x1b[0mc", "a\nbc"},
		"open sequence":            {"a\x1b[3", "a"},
		"not UTF-8":                {"a\xffb\xe2\x82\nc", "a\uFFFDb\uFFFD\uFFFD\nc"},
		"surrogate":                {"\xed\xa0\x80", "\uFFFD\uFFFD\uFFFD"},
		"umlauts":                  {"äöü 日本語 🙂\n", "äöü 日本語 🙂\n"},

		"cleared by newlines":         {"a\n" + vite + "b\n" + vite + "c\n", "a\nb\nc\n"},
		"cleared by newlines at once": {vite + "a\n", "a\n"},
		"cleared after blank lines":   {"a\n\n\n\x1b[2J\x1b[3J\x1b[Hb", "a\nb"},
		"blank lines alone":           {"a\n\n\n\nb\n", "a\n\n\n\nb\n"},
		"a frame that ends in blanks": {"\x1b[H1\n\n\n\x1b[H2\n\n\n", "2\n\n\n"},
		"blank rows that it moves to": {"\x1b[Ha\x1b[40;1H\x1b[1;1Hb", "b"},

		"carriage return":         {"10%\r50%\r100%\n", "100%\n"},
		"shorter text":            {"downloading\rdone\n", "doneloading\n"},
		"erase to the end":        {"downloading\rdone\x1b[K\n", "done\n"},
		"erase before":            {"downloading\x1b[G\x1b[2Kdone\n", "done\n"},
		"erase to the start":      {"abcdef\x1b[3D\x1b[1K\n", "    ef\n"},
		"padded":                  {"downloading\rdone       \n", "done\n"},
		"cleared":                 {"50%\r   \rready\n", "ready\n"},
		"backspaces":              {"1%\b\b2%\b\b3%\n", "3%\n"},
		"backspace at the start":  {"\b\ba", "a"},
		"spinner":                 {"-\b\\\b|\b/\b \bok", "ok"},
		"typed and erased":        {"lss\b \b\r\n", "ls\n"},
		"umlaut drawn over":       {"äöü\rb", "böü"},
		"delete and insert":       {"abcdef\r\x1b[2P\x1b[1@x\n", "xcdef\n"},
		"erase characters":        {"abcdef\r\x1b[2X\n", "  cdef\n"},
		"columns":                 {"a\x1b[5Gb\x1b[2Cc\n", "a   b  c\n"},
		"up and down":             {"a\nb\nc\x1b[2A\rX\x1b[2B\rZ\n", "X\nb\nZ\n"},
		"rows that were taken":    {"a\nb\nc\n" + up + erase + up + erase + "x\n", "a\nx\n"},
		"erase below":             {"a\nb\nc\n\x1b[3A\x1b[Jx\n", "x\n"},
		"up further than there":   {"\x1b[99Aa\n", "a\n"},
		"clear keeps":             {"before\x1b[2J\x1b[Hafter\n", "before\nafter\n"},
		"frames of watch":         {"$\x1b[H\x1b[2J\x1b[1;1Hone 1\x1b[2;1Htwo\x1b[1;5H2\x1b[1;5H3\n", "$\none 3\ntwo"},
		"the other screen":        {"a\x1b[?1049hb\x1b[?1049lc", "a\nb\nc"},
		"restored after a while":  {"a\x1b7bc\x1b8d\n", "adc\n"},
		"restored below an erase": {"a\nb\x1b7\x1b[A\x1b[J\x1b8c", "ac"},
		"prompt after a clear":    {"50%\r\x1b[KPassword: ", "Password: "},
		"wrapped and erased":      {strings.Repeat("x", maxCols+5) + "\r\x1b[Ky\n", strings.Repeat("x", maxCols) + "y\n"},
	}.check(t, func(in string) string { return Text([]byte(in)) })
}

// Progress as real programs draw it.
func TestTextFoldsProgress(t *testing.T) {
	racetest.Skip(t)
	const n = 10_000
	tests := map[string]struct {
		update func(i int) string
		end    string
		want   string
	}{
		"tqdm": {
			func(i int) string {
				return fmt.Sprintf("\r%3d%%|####      | %d/%d [00:01<00:00, 9.8it/s]", i*100/n, i, n)
			},
			"\n", "100%|####      | 10000/10000 [00:01<00:00, 9.8it/s]\n",
		},
		"two bars of tqdm": {
			func(i int) string { return fmt.Sprintf("\router %d\n\rinner %d\x1b[A", i/10, i) },
			"\n\n", "outer 1000\ninner 10000\n",
		},
		"pip": {
			func(i int) string {
				return fmt.Sprintf("\r\x1b[2K   \x1b[32m━━━━\x1b[0m %.1f/10.0 MB", float64(i)/1000)
			},
			"\r\n", "   ━━━━ 10.0/10.0 MB\n",
		},
		"cargo": {
			func(i int) string { return fmt.Sprintf("    Building [==>  ] %d/%d: serde\r", i, n) },
			"\x1b[K    Finished dev\n", "    Finished dev\n",
		},
		"npm": {
			func(i int) string { return "\x1b[1G\x1b[0K" + `-\|/`[i%4:i%4+1] },
			"\x1b[1G\x1b[0Kadded 3 packages\n", "added 3 packages\n",
		},
		"lines of docker": {
			func(i int) string {
				return fmt.Sprintf("\x1b[3A\x1b[2K\ra: %d\n\x1b[2K\rb: %d\n\x1b[2K\rc: %d\n", i, i/2, i/3)
			},
			"", "a: 10000\nb: 5000\nc: 3333\n",
		},
		"rich": {
			func(i int) string { return fmt.Sprintf("\r\x1b[2K\x1b[1A\x1b[2Kstep\nbar %d", i) },
			"\n", "step\nbar 10000\n",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			for i := 1; i <= n; i++ {
				b.WriteString(tt.update(i))
			}
			b.WriteString(tt.end)
			if diff := cmp.Diff(tt.want, Text(b.Bytes())); diff != "" {
				t.Errorf("%d updates do not read as one (-want +got):\n%s", n, diff)
			}
		})
	}
}

// apt draws its bar in the last row and moves back; the lines that it prints in between stay.
func TestTextLeavesOutStatusLine(t *testing.T) {
	bar := func(n int) string {
		return fmt.Sprintf("\x1b7\x1b[40;0f\x1b[42m\x1b[30mProgress: [%3d%%]\x1b[49m\x1b[39m [##..] \x1b8", n)
	}
	in := "Get:1 a\r\n\r\n\x1b7\x1b[0;39r\x1b8\x1b[1A" + bar(0) + "Unpacking a ...\r\n" + bar(50) + "Setting up a ...\r\n" + bar(100) +
		"\r\n\x1b7\x1b[0;40r\x1b8\x1b[1A\x1b[J"
	if got, want := Text([]byte(in)), "Get:1 a\nUnpacking a ...\nSetting up a ...\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A line that never ends, and more rows than can be changed.
func TestTextOfManyRows(t *testing.T) {
	var in, want strings.Builder
	for i := range 3 * maxRows {
		fmt.Fprintf(&in, "line %d\r\n", i)
		fmt.Fprintf(&want, "line %d\n", i)
	}
	in.WriteString("\x1b[1000A\rLINE") // the cursor can't reach rows that are settled
	got := Text([]byte(in.String()))
	first := 2*maxRows + 1
	wanted := strings.Replace(want.String(), fmt.Sprintf("line %d\n", first), fmt.Sprintf("LINE %d\n", first), 1)
	wanted = strings.TrimSuffix(wanted, "\n") // nor is the blank row under it a line
	if diff := cmp.Diff(wanted, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	long := strings.Repeat("0123456789", 100_000)
	if Text([]byte(long)) != long {
		t.Error("a line of a million characters was changed")
	}
}

func TestLastLine(t *testing.T) {
	inOut{
		"prompt":       {"hello\nEnter your name: ", "Enter your name: "},
		"coloured":     {"\x1b[1mProceed?\x1b[0m [y/N] ", "Proceed? [y/N] "},
		"redrawn":      {"Pass\r\x1b[KPassword: ", "Password: "},
		"after a line": {"hello\n", ""},
		"empty":        {"", ""},
		"help below":   {"Pick: \n  a\n  b\x1b[2A\x1b[7G", "Pick: "},
		"torn":         {strings.Repeat("ü", lastLineBytes) + "\n> ", "> "},
		"half a rune":  {"caf\xc3", "caf\uFFFD"},
		"wrapped":      {strings.Repeat("x", maxCols) + "? ", strings.Repeat("x", maxCols) + "? "},
	}.check(t, func(in string) string { return LastLine([]byte(in)) })
}

func TestLine(t *testing.T) {
	tests := map[string]struct {
		in   string
		max  int
		want string
	}{
		"fits":             {"Enter your name: ", 17, "Enter your name: "},
		"cut":              {"Enter your name: ", 6, "Enter…"},
		"controls":         {"a\nb\tc\x1b[0m\x00\u0085\u2028", 99, `a\nb\tc\x1b[0m\x00\x85\u2028`},
		"formats":          {"a\u202eb\u2066\ufeff\U000e0041", 99, `a\u202eb\u2066\ufeff\U000e0041`},
		"joiners":          {"👨\u200d👩", 99, "👨\u200d👩"},
		"never half a one": {"ab\x1bcd", 5, "ab…"},
		"not UTF-8":        {"a\xff", 9, "a\uFFFD"},
		"characters":       {"日本語", 3, "日本語"},
		"empty":            {"", 0, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Line(tt.in, tt.max); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// A line that would read as the mark of a section is escaped.
func TestClipEscapesMarks(t *testing.T) {
	inOut{
		"mark":              {"--- STDOUT ---\n", "\\--- STDOUT ---\n"},
		"without a newline": {"a\n--- RESULT ---", "a\n\\--- RESULT ---"},
		"indented":          {"  --- STDERR ---  \r\n", "\\  --- STDERR ---  \n"},
		"invisible":         {"--- STD\u200bOUT ---", "\\--- STD\u200bOUT ---"},
		"narrow":            {"---STDOUT---", "\\---STDOUT---"},
		"several words":     {"--- LATE OUTPUT ---", "\\--- LATE OUTPUT ---"},
		"escaped before":    {"\\--- STDOUT ---", "\\\\--- STDOUT ---"},
		"diff":              {"--- a/x.go\n+++ b/x.go", "--- a/x.go\n+++ b/x.go"},
		"go test":           {"--- FAIL: TestX (0.00s)", "--- FAIL: TestX (0.00s)"},
		"rule":              {"--------", "--------"},
		"two dashes":        {"-- X --", "-- X --"},
		"small letters":     {"--- stdout ---", "--- stdout ---"},
		"open":              {"--- STDOUT", "--- STDOUT"},
		"yaml":              {"---\nA: 1\n---\n", "---\nA: 1\n---\n"},
	}.check(t, func(in string) string {
		return Clip(one(0, in), Stretch{}, Budget{Head: 0, Max: 1000}).Sections[0].Head
	})
}

func TestComplete(t *testing.T) {
	inOut{ // want is the bytes kept for later
		"complete":           {"abc\x1b[0m", ""},
		"ESC":                {"abc\x1b", "\x1b"},
		"CSI":                {"abc\x1b[31", "\x1b[31"},
		"title":              {"abc\x1b]0;ti", "\x1b]0;ti"},
		"end of a title":     {"abc\x1b]0;title\x1b", "\x1b]0;title\x1b"},
		"title over a line":  {"abc\x1b]0;ti\nx", ""},
		"character set":      {"abc\x1b(", "\x1b("},
		"two of three bytes": {"abc\xe2\x82", "\xe2\x82"},
		"not UTF-8 at all":   {"abc\xff", ""},
		"many beginnings":    {"abc\xc5\xc5\xc5\xc5", "\xc5"},
		"many escapes":       {"abc\x1b\x1b\x1b", "\x1b"},
		"before a sequence":  {"abc\xc5\x1b[3", "\x1b[3"},
		"cut in a title":     {"abc\x1b]0;caf\xc3", "\x1b]0;caf\xc3"},
		"a character":        {"abcü", ""},
		"never ends":         {"abc\x1bP" + strings.Repeat("x", 2*maxHeld), ""},
		"empty":              {"", ""},
	}.check(t, func(in string) string { return in[complete([]byte(in)):] })
}

func TestBegin(t *testing.T) {
	tests := map[string]struct {
		in   string
		at   int
		rest string
	}{
		"at the start":          {"abc", 0, "abc"},
		"rest of a character":   {"\x82\xacabc", 0, "abc"},
		"in plain text":         {"abc", 1, "bc"},
		"in a character":        {"a€b", 2, "b"},
		"in a sequence":         {"a\x1b[31mred", 3, "red"},
		"in a title":            {"\x1b]0;title\x07red", 4, "red"},
		"between two sequences": {"\x1b[0m\x1b[1mx", 4, "\x1b[1mx"},
		"behind the end":        {"abc\x1b[", 9, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := tt.in[Begin([]byte(tt.in), tt.at):]; got != tt.rest {
				t.Errorf("got %q, want %q", got, tt.rest)
			}
		})
	}
}

// checkReadable fails if s breaks a promise of every view.
func checkReadable(t *testing.T, s string) {
	t.Helper()
	if !utf8.ValidString(s) {
		t.Fatalf("not UTF-8: %q", s)
	}
	for _, r := range s {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			t.Fatalf("control character %q in %q", r, s)
		}
	}
}

func FuzzText(f *testing.F) {
	for _, s := range []string{
		"a\r\nb", "\x1b[31mx\x1b[0m\x1b[2A\x1b[K", "\x1b]0;t\x07\x1bPq\x1b\\", "\xe2\x82\xac\xff\u009b5A", "\x1b7\x1b[40;0fx\x1b8",
		"\x1b[2J\x1b[H\x1b[9;9Hx\x1b[1P\x1b[3@\x1b[5X", "a\x1b[1023Cbcd\b\b\x1b[1K\x1b[J",
		strings.Repeat("x", 5000), strings.Repeat("\x00", 5000), strings.Repeat("\x1b[", 2000), strings.Repeat("\x1b[A\x1b[99;99H", 500), "\x1b]0;" + strings.Repeat("x", 5000),
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		s := Text(b)
		checkReadable(t, s)
		if again := Text([]byte(s)); again != s {
			t.Fatalf("a view of the view differs:\n%q\n%q", s, again)
		}
		if strings.ContainsAny(LastLine(b), "\n") {
			t.Fatal("the last line is several")
		}
		checkReadable(t, LastLine(b))
		checkReadable(t, Line(string(b), 40))
		if n := utf8.RuneCountInString(Line(string(b), 40)); n > 40 {
			t.Fatalf("a header value of %d characters", n)
		}
		n := complete(b)
		if n < 0 || n > len(b) || len(b)-n > maxHeld {
			t.Fatalf("complete: %d of %d", n, len(b))
		}
		if len(b) <= maxHeld && Begin(b, n) != n && utf8.RuneStart(b[0]) {
			t.Fatalf("complete cuts %q at %d, the next beginning is at %d", b, n, Begin(b, n))
		}
		for at := range min(len(b), 20) + 1 {
			if i := Begin(b, at); i < at || i > len(b) {
				t.Fatalf("Begin(%q, %d) = %d", b, at, i)
			}
		}
	})
}

// FuzzStrip: colours, titles and links between the characters of a text leave it as it is.
func FuzzStrip(f *testing.F) {
	f.Add("abc", uint8(3))
	f.Add("ü\n日", uint8(200))
	f.Fuzz(func(t *testing.T, text string, pick uint8) {
		for _, r := range text {
			if r == utf8.RuneError || unicode.IsControl(r) && r != '\n' && r != '\t' {
				return
			}
		}
		styles := []string{"\x1b[31m", "\x1b[0m", "\x1b]0;title\x07", "\x1b[38;5;9m", "\x1b]8;;x\x1b\\", "\x1b[?25l", "\x1b(B"}
		var b strings.Builder
		for i, r := range text {
			b.WriteString(styles[(i+int(pick))%len(styles)])
			b.WriteRune(r)
		}
		if got := Text([]byte(b.String())); got != text {
			t.Errorf("Text(%q)\n got %q\nwant %q", b.String(), got, text)
		}
	})
}

// A count agrees with its noun.
func TestCountOf(t *testing.T) {
	for n, want := range map[int]string{0: "0 processes are", 1: "1 process is", 2: "2 processes are", 1000: "1,000 processes are"} {
		if got := CountAre(n, "process"); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
	if got := CountOf(int64(2), "job"); got != "2 jobs" {
		t.Error(got)
	}
}

func TestCount(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -999: "-999", -1000: "-1,000", 181220: "181,220", 1234567: "1,234,567"} {
		if got := Count(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}
