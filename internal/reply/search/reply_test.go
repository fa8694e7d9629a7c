package search

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"asyncrepl/internal/output"
	"asyncrepl/internal/reply/report"
	"asyncrepl/internal/test/racetest"
	"asyncrepl/internal/text/lines"
	"asyncrepl/jobs"
)

// reply returns the text of the reply about a search in a job's log.
func reply(log output.Reader, status jobs.Status, r Result) string {
	record := jobs.Record{ID: "J1", Status: status, Output: log.Stat()}
	return r.Reply(&report.Reporter{}, record, jobs.Live{}, []string{"job J2 completed"}, 16_000).String()
}

// A log whose middle was dropped is searched before and after it, on disk as in memory, and the
// reply says what is gone and why. The job runs, and its last line has no end yet.
func TestReplySaysWhatWasDropped(t *testing.T) {
	racetest.Skip(t)
	dir := t.TempDir()
	for name, config := range map[string]output.Config{
		"memory": {Cap: 1 << 20},
		"disk":   {Cap: 2 << 20, Dir: func() (string, error) { return dir, nil }},
	} {
		t.Run(name, func(t *testing.T) {
			log := output.NewStore(config).NewLog("")
			defer log.Discard()
			var piece []byte
			for i := range 200_000 {
				if piece = fmt.Appendf(piece, "line %06d ok\r\n", i); i%100 == 99 {
					log.Write(output.TTY, piece)
					piece = piece[:0]
				}
			}
			log.Write(output.TTY, []byte("Password for line 9: "))
			r := run(t, log, Query{Pattern: compile(t, `line (000007|100007|199999|9: $)`)})
			got := reply(log, jobs.Running, r)
			gap := log.Stat().Gaps[0]
			want := fmt.Sprintf("Job ID: J1\nStatus: running\nMatches: 3\nSearched: %s bytes (cursor 0..3200021), without %s bytes (cursor %d..%d) "+
				"that can't be read any more: the output limit of one job was reached (REPL_MAX_OUTPUT)\nAlso: job J2 completed\n\n"+
				"stdout 112: line 000007 ok\nstdout 3199984: line 199999 ok\nstdout 3200000: Password for line 9: \n",
				commas(3_200_021-(gap.To-gap.From)), commas(gap.To-gap.From), gap.From, gap.To)
			if got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func commas(n int64) string {
	s := fmt.Sprint(n)
	return regexp.MustCompile(`(\d)(\d{3})(\d{3})?$`).ReplaceAllString(s, "$1,$2,$3")
}

// However long the matches are, the reply has room for them, and says at which one to continue.
func TestReplyIsBounded(t *testing.T) {
	racetest.Skip(t)
	log := newLog()
	for i := range 300 {
		log.Write(output.Stdout, fmt.Appendf(nil, "%d %s\n", i, strings.Repeat("é", 5000)))
	}
	seen, from := 0, int64(0)
	for from >= 0 {
		r := run(t, log, Query{Pattern: compile(t, "^"), From: from, Matches: 200, Context: 3})
		text := reply(log, jobs.Completed, r)
		if n := utf8.RuneCountInString(text); n > 16_000 {
			t.Fatalf("%d characters", n)
		}
		for _, m := range regexp.MustCompile(`(?m)^stdout \d+: (\d+) é+…$`).FindAllStringSubmatch(text, -1) {
			if m[1] != fmt.Sprint(seen) {
				t.Fatalf("line %s after %d lines", m[1], seen)
			}
			seen++
		}
		next := regexp.MustCompile(`(?m)^Next: search_job_output\(job_id=…, pattern=…, cursor=(\d+)\)$`).FindStringSubmatch(text)
		if from = -1; next != nil {
			fmt.Sscan(next[1], &from)
		}
		if (next != nil) != strings.Contains(text, ", and more follow\n") {
			t.Fatalf("%.300s", text)
		}
	}
	if seen != 300 {
		t.Errorf("%d of 300 lines were shown", seen)
	}
}

// Lines that are around several matches are shown once, and marks stand for what is between.
func TestReplyShowsEachLineOnce(t *testing.T) {
	log := newLog()
	for i := range 30 {
		log.Write(output.Stderr, fmt.Appendf(nil, "%02d\n", i))
	}
	r := run(t, log, Query{Pattern: compile(t, "03|05|06|20"), Context: 2})
	_, got, _ := strings.Cut(reply(log, jobs.Completed, r), "\n\n")
	var want strings.Builder
	for _, i := range []int{1, 2, 3, 4, 5, 6, 7, 8, -1, 18, 19, 20, 21, 22} {
		mark := "-"
		if i == 3 || i == 5 || i == 6 || i == 20 {
			mark = ":"
		}
		if i < 0 {
			want.WriteString("--\n")
			continue
		}
		fmt.Fprintf(&want, "%s %d%s %02d\n", lines.Stderr, 3*i, mark, i)
	}
	if got != want.String() {
		t.Errorf("got\n%s\nwant\n%s", got, want.String())
	}
}

// The reason why a pattern is refused comes with the place in it. Rows that were made by one move
// begin at the same cursor. All of them are shown, and the next search comes further.
func TestReplyShowsRowsOfOneCursor(t *testing.T) {
	log := newLog()
	log.Write(output.TTY, []byte("\x1b[3;1Hrow 3\x1b[1;1Hrow 1\x1b[2;1Hrow 2\x1b[4;1Hrow 4\r\nrow 5\r\n"))
	var got []string
	for from := int64(0); from >= 0; {
		r := run(t, log, Query{Pattern: compile(t, "row"), From: from, Matches: 1, Context: 1})
		got = append(got, texts(r.Matches)...)
		text := reply(log, jobs.Completed, r)
		for _, line := range texts(r.Matches) {
			if strings.Count(text, ": "+line+"\n") != 1 {
				t.Errorf("%s is not shown once:\n%s", line, text)
			}
		}
		if r.Next >= 0 && r.Next <= from {
			t.Fatalf("from %d on, the next search begins at %d", from, r.Next)
		}
		from = r.Next
	}
	if want := []string{"row 1", "row 2", "row 3", "row 4", "row 5"}; !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
}

func TestCompileSaysWhere(t *testing.T) {
	for pattern, want := range map[string]string{
		"":                        "is empty: it would match every line.",
		"a(b":                     "is refused by RE2: missing closing ), at character 2 of 3.",
		"(a)(b(c)":                "is refused by RE2: missing closing ), at character 4 of 8.",
		"ab)c":                    "is refused by RE2: unexpected ), at character 3 of 4.",
		"ü[a":                     "is refused by RE2: missing closing ] [a, at character 2 of 3.",
		"[**]a**":                 "is refused by RE2: invalid nested repetition operator **, at character 6 of 7.",
		`x\q`:                     `is refused by RE2: invalid escape sequence \q, at character 2 of 3.`,
		`ab\`:                     "is refused by RE2: trailing backslash at end of expression, at character 3 of 3.",
		"a{1001}":                 "is refused by RE2: invalid repeat count {1001}, at character 2 of 7.",
		"(?=a)":                   "is refused by RE2: invalid or unsupported Perl syntax (?=, at character 1 of 5.",
		"*":                       "is refused by RE2: missing argument to repetition operator *, at character 1 of 1.",
		"b[z-a]":                  "is refused by RE2: invalid character class range z-a, at character 3 of 6.",
		"a\\nb":                   "holds a newline, *",
		"\xff":                    "is refused by RE2: invalid UTF-8*",
		"(a{999}){999}":           "is refused by RE2: *",
		strings.Repeat("a", 1001): "may have 1,000 characters at most.",
	} {
		_, err := Compile(pattern)
		begin, any := strings.CutSuffix(want, "*")
		if err == nil || any && !strings.HasPrefix(err.Error(), begin) || !any && err.Error() != want {
			t.Errorf("%q: %v\nwant %s", pattern, err, want)
		}
	}
	for _, pattern := range []string{`\n?a`, `[^\n]`, `(a|\n)b`, `\s`, " ", "$"} {
		compile(t, pattern)
	}
}
