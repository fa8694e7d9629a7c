package report

import (
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"asyncrepl/internal/output"
	"asyncrepl/jobs"
)

// Lines are alike if they begin with the same few characters. A flood has only few beginnings: 95 %
// of the text of `go test -v` has one of eight, 80 % of a lock file of npm, 40 % of code, a diff or
// a document.
const (
	beginningChars = 6
	beginnings     = 8
	alikeShare     = 0.9
	longLine       = 200 // characters; a longer line is compared item by item
)

// isFlood reports whether the output that w selects does not fit and need not be read line by line:
// of a command that has failed and has printed an error, or of lines that are alike and twice as much
// as fits. A list or table that fits nearly is shown as far as it does. But if all of it
// is standard error it is a log or warnings, and short once it does not fit.
func isFlood(j *jobs.Job, record jobs.Record, w Window, room int) bool {
	log, final := j.Log(), record.Status.Final()
	if w.screen != nil || w.View == RawView || w.Part == Forward || w.Part == Newest && !final || w.lines > 0 || log.Stat().End-w.From <= int64(room) {
		return false
	}
	x := newExcerpt(log, final, w, room)
	if len(x.omitted) == 0 {
		return false
	}
	if record.Kind == jobs.Shell && record.Status == jobs.Failed && len(j.Errors().From(x.from)) > 0 {
		return true
	}
	end := log.Stat().End
	onlyLog := log.Streams(w.From, end) == output.Streams(0).With(output.Stderr)
	return (onlyLog || end-w.From > 2*int64(room)) && alike(x.text)
}

// alike reports whether nearly all of the lines of some text begin like others.
func alike(text [sections]string) bool {
	count := map[string]int{} // characters of the lines, by their beginning
	all := 0
	for _, section := range text {
		for line := range strings.Lines(section) {
			separator := ", "
			if len(line) <= longLine {
				separator = "\n"
			}
			for item := range strings.SplitSeq(line, separator) {
				if item = strings.TrimSpace(item); item != "" {
					n := utf8.RuneCountInString(item)
					count[beginningOf(item)] += n
					all += n
				}
			}
		}
	}
	most := slices.SortedFunc(maps.Values(count), func(a, b int) int { return b - a })
	sum := 0
	for _, n := range most[:min(len(most), beginnings)] {
		sum += n
	}
	return float64(sum) >= alikeShare*float64(all)
}

// beginningOf returns how a line begins, with 0 for each number.
func beginningOf(line string) string {
	var b [beginningChars]rune
	n, number := 0, false
	for _, c := range line {
		if digit := '0' <= c && c <= '9'; digit && number {
			continue
		} else if number = digit; digit {
			c = '0'
		}
		if b[n] = c; n == beginningChars-1 {
			break
		}
		n++
	}
	return string(b[:])
}
