//go:build unix

package queries_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"asyncrepl/internal/terminal/queries"
	"asyncrepl/internal/test/racetest"
)

// asking matches queries. An ESC within one begins another sequence.
var asking = regexp.MustCompile(`\x1b(?:\[(?:0{0,5}c|>0{0,5}c|0{0,4}[56]n|\?0{0,4}6n|\??[0-9]{1,5}\$p)|\]1[01];\?(?:\x07|\x1b\\))`)

// What queries are found, and where they end, does not depend on where the output is cut.
func FuzzScan(f *testing.F) {
	for _, s := range []string{
		"\x1b[6n", "a\x1b[c\x1b[0c\x1b[>c\x1b[>0cb", "\x1b[5n\x1b[?6n\x1b[?2026$p\x1b[4$p", "\x1b]10;?\a\x1b]11;?\x1b\\",
		"\x1b]11;?\x1b[6n", "\x1b[\x1b[6n", "\x1b\x1b[6n", "\x1b[31mred\x1b[0m", "\x1b[000006n\x1b[00006n", "\x1b]0;title \x1b[6n\a",
		"\x1b[?\x1b]10;\x1b]11;?\x1b\x1b[c", "\x1b[1;6n\x1b[6;1R\x1b[$p\x1b[>1$p\x1b[=c\x1b]12;?\a", "\x1b[6",
	} {
		f.Add([]byte(s), uint16(1), uint16(3))
		f.Add([]byte(s), uint16(2), uint16(2))
	}
	f.Fuzz(func(t *testing.T, b []byte, first, second uint16) {
		whole := queries.Scan(b)
		var want []int
		for _, at := range asking.FindAllIndex(b, -1) {
			want = append(want, at[1])
		}
		var ends []int
		for _, q := range whole {
			ends = append(ends, q.End)
		}
		if !slices.Equal(ends, want) {
			t.Errorf("queries of %q end at %v, want %v", b, ends, want)
		}
		var single [][]byte
		for i := range b {
			single = append(single, b[i:i+1])
		}
		if got := queries.Scan(single...); !slices.Equal(got, whole) {
			t.Errorf("%q byte by byte: %v, want %v", b, got, whole)
		}
		i := int(first) % (len(b) + 1)
		j := i + int(second)%(len(b)-i+1)
		if got := queries.Scan(b[:i], b[i:j], b[j:]); !slices.Equal(got, whole) {
			t.Errorf("%q, %q, %q: %v, want %v", b[:i], b[i:j], b[j:], got, whole)
		}
	})
}

// A query is found in the middle of long output without others, and each of a million.
func TestQueriesInLongOutput(t *testing.T) {
	racetest.Skip(t)
	text := strings.Repeat("a line of \x1b[1;31mcolour\x1b[m\r\n", 100_000)
	if got := queries.Scan([]byte(text + "\x1b[6n" + text)); len(got) != 1 || got[0].End != len(text)+4 {
		t.Errorf("found %v", got)
	}
	if got := queries.Scan([]byte(strings.Repeat("\x1b[6n", 1_000_000))); len(got) != 1_000_000 {
		t.Errorf("found %d", len(got))
	}
}
