package progress

import (
	"math"
	"strconv"
	"strings"
	"unicode"

	"asyncrepl/internal/text/view"
)

// Some progress matches no row of the table: step 123/300 (41%), Reading database ... 47%.
// One such line can say anything. Two that differ in the count only, and the count has risen, are
// progress.

// works are words that say that the count after them is of work, in the singular. So does any word
// that ends in -ing.
var works = map[string]bool{
	"step": true, "epoch": true, "batch": true, "iter": true, "iteration": true, "item": true, "file": true, "chunk": true, "page": true,
	"sample": true, "task": true, "frame": true, "row": true, "record": true, "image": true, "round": true, "trial": true, "fold": true,
	"processed": true, "downloaded": true, "progress": true, "done": true, "complete": true, "completed": true,
}

// others are words that say that a count is not of work that is done.
var others = []string{"remain", "left", "free", "using"}

// count returns the bar that a line with a count is, and a key that the lines of one work share.
func count(line string) (b Bar, key string, ok bool) {
	if len(line) > lineMax {
		return Bar{}, "", false
	}
	for _, between := range []string{"/", " of "} {
		for at := strings.Index(line, between); at >= 0; {
			before, done := lastNumber(line[:at])
			total, after := firstNumber(line[at+len(between):])
			if b, ok := part(before, done, total, after); ok && !isOther(line) {
				return b, keyOf(before, total), true
			}
			next := strings.Index(line[at+1:], between)
			if next < 0 {
				break
			}
			at += 1 + next
		}
	}
	if at := strings.IndexByte(line, '%'); at >= 0 {
		before, share := lastNumber(line[:at])
		dots := strings.TrimRight(before, " :")
		word, _, _ := strings.Cut(strings.TrimLeft(line[at+1:], " )]"), " ")
		if share != "" && (isWork(before) || strings.HasSuffix(dots, "...") || strings.HasSuffix(dots, "…") || works[strings.ToLower(word)]) && !isOther(line) {
			b, ok = newCount(share, "", "")
			return b, keyOf(before, ""), ok
		}
	}
	return Bar{}, "", false
}

// part returns the bar of done of total, if the share that follows agrees with these numbers or the
// word before says that this is work.
func part(before, done, total, after string) (b Bar, ok bool) {
	if done == "" || total == "" || strings.ContainsAny(done+total, ".") || strings.HasSuffix(before, "/") || strings.HasPrefix(after, "/") {
		return Bar{}, false
	}
	if b, ok = newCount("", done, total); !ok || b.Total == 0 {
		return Bar{}, false
	}
	beside, _, found := strings.Cut(after, "%")
	if lead, share := lastNumber(beside); found && share != "" && len(lead) < 20 {
		n, err := strconv.ParseFloat(share, 64)
		return b, err == nil && math.Abs(n-100*b.Done/b.Total) <= 1
	}
	return b, isWork(before)
}

// newCount returns the bar of a line with a count.
func newCount(percent, done, total string) (Bar, bool) {
	return (&row{}).newBar(func(name string) string {
		return map[string]string{"percent": percent, "done": done, "total": total}[name]
	})
}

// lastNumber returns the number that text ends with, and the text before it.
func lastNumber(text string) (before, number string) {
	text = strings.TrimSuffix(text, " ")
	at := len(text)
	for at > 0 && isNumber(text[at-1]) {
		at--
	}
	return text[:at], text[at:]
}

// firstNumber returns the number that text begins with, and the text after it.
func firstNumber(text string) (number, after string) {
	text = strings.TrimPrefix(text, " ")
	at := 0
	for at < len(text) && isNumber(text[at]) {
		at++
	}
	number = strings.TrimRight(text[:at], ".,") // the end of a sentence
	return number, text[len(number):]
}

func isNumber(c byte) bool { return c >= '0' && c <= '9' || c == '.' || c == ',' }

// isWork reports whether the text before a count ends with a word that says that this is work.
func isWork(before string) bool {
	text := strings.TrimRight(before, " :#=[(")
	if len(before)-len(text) > 3 || len(before) == len(text) {
		return false
	}
	word := strings.ToLower(text[strings.LastIndexFunc(text, func(r rune) bool { return !unicode.IsLetter(r) })+1:])
	return works[strings.TrimSuffix(word, "s")] || works[word] || len(word) > 4 && strings.HasSuffix(word, "ing")
}

// isOther reports whether a line says that its count is not of work that is done.
func isOther(line string) bool {
	line = strings.ToLower(line)
	for _, word := range others {
		if strings.Contains(line, word) {
			return true
		}
	}
	return false
}

// keyOf returns what the lines of one work have in common: the total, and the text before the count
// without its digits, which can belong to a clock.
func keyOf(before, total string) string {
	return total + " " + strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, before)
}

// counted returns the last line with a count, if the last line before it with another count of the
// same work has a lower one. Lines can repeat a count, as the batches of an epoch do. below reports
// whether other text follows.
func counted(lines []string) (b Bar, key string, below, ok bool) {
	for i := len(lines) - 1; i >= 0; i-- {
		if b, key, ok = count(lines[i]); !ok {
			below = below || lines[i] != ""
			continue
		}
		for i--; i >= 0; i-- {
			if before, k, found := count(lines[i]); found && k == key && before.Done != b.Done {
				return b, key, below, before.Done < b.Done
			}
		}
		return Bar{}, "", false, false
	}
	return Bar{}, "", false, false
}

// hasCount reports whether one of the lines is of the work of that key.
func hasCount(lines []string, key string) bool {
	for _, line := range lines {
		if _, k, ok := count(line); ok && k == key {
			return true
		}
	}
	return false
}

// states returns the lines of output with that text, and each state of a line that was drawn several
// times.
func states(data []byte, text string) []string {
	if all := strings.ReplaceAll(string(data), "\r\n", "\n"); strings.Contains(all, "\r") {
		text = view.Text([]byte(strings.ReplaceAll(all, "\r", "\n")))
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSpace(line)
	}
	return lines
}
