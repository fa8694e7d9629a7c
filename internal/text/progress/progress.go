package progress

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// A Bar is the state of some work as a program shows it. A field is empty if the bar doesn't say it.
type Bar struct {
	Done, Total float64       // the bar's unit is theirs, or percent; Total is 0 if the bar has none
	Rate        string        // the rate with its unit: 350 it/s
	Left        time.Duration // negative: unknown

	percent     float64 // the share that is shown, or else calculated; negative: unknown
	done, total string  // the amounts as the program writes them
}

// String returns what the bar says: 43 %, 4300 of 10000, 350 it/s, 0:16 left.
func (b Bar) String() string {
	var parts []string
	if b.percent >= 0 {
		parts = append(parts, strconv.FormatFloat(b.percent, 'f', -1, 64)+" %")
	}
	switch {
	case b.done != "" && b.total != "":
		parts = append(parts, b.done+" of "+b.total)
	case b.done != "":
		parts = append(parts, b.done)
	}
	if b.Rate != "" {
		parts = append(parts, b.Rate)
	}
	if b.Left >= 0 {
		parts = append(parts, clockText(b.Left)+" left")
	}
	return strings.Join(parts, ", ")
}

// MarshalJSON returns the bar as an object: text, which is what String returns, percent and
// left_seconds. What is unknown is left out.
func (b Bar) MarshalJSON() ([]byte, error) {
	fields := struct {
		Text    string   `json:"text"`
		Percent *float64 `json:"percent,omitempty"`
		Left    *float64 `json:"left_seconds,omitempty"`
	}{Text: b.String()}
	if b.percent >= 0 {
		fields.Percent = &b.percent
	}
	if left := b.Left.Seconds(); left >= 0 {
		fields.Left = &left
	}
	return json.Marshal(fields)
}

// clockText returns d as 0:16 or 1:02:03.
func clockText(d time.Duration) string {
	s := int(d.Seconds())
	if s < 3600 {
		return fmt.Sprintf("%d:%02d", s/60, s%60)
	}
	return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
}

// Last returns the last line of text that is a bar.
func Last(text string) (b Bar, ok bool) {
	b, _, ok = last(text)
	return b, ok
}

// last is Last. below reports whether other text follows.
func last(text string) (b Bar, below, ok bool) {
	var rows []*row // the rows that can match a line of text
	for i := range programs {
		if programs[i].mayMatch(text) {
			rows = append(rows, &programs[i])
		}
	}
	for len(rows) > 0 && text != "" {
		start := strings.LastIndexByte(text, '\n') + 1
		line := strings.TrimRight(text[start:], " \t\r")
		for _, row := range rows {
			if b, ok = row.parse(line); ok {
				return b, below, true
			}
		}
		below = below || line != ""
		text = text[:max(0, start-1)]
	}
	return Bar{}, false, false
}

// lineMax bounds a bar, in bytes. No terminal is so wide.
const lineMax = 1000

// parse returns the bar that a line is.
func (r *row) parse(line string) (b Bar, ok bool) {
	if len(line) > lineMax || !r.mayMatch(line) {
		return Bar{}, false
	}
	pattern := r.pattern()
	m := pattern.FindStringSubmatch(line)
	if m == nil {
		return Bar{}, false
	}
	return r.newBar(func(name string) string {
		if i := pattern.SubexpIndex(name); i >= 0 {
			return strings.TrimSpace(m[i])
		}
		return ""
	})
}

// newBar returns the bar of the groups of a match. It reports false if they say nothing, or what
// can't be: more than all.
func (r *row) newBar(group func(string) string) (b Bar, ok bool) {
	b = Bar{percent: -1, Left: duration(group("left")), done: group("done"), total: group("total"), Rate: rate(group("rate"), r.per)}
	b.Done, b.Total = size(b.done), size(b.total)
	if b.total != "" && endsInDigit(b.done) && !endsInDigit(b.total) { // 12.3/13.1 MB
		b.Done = size(b.done + b.total[strings.LastIndexAny(b.total, "0123456789")+1:])
	}
	switch {
	case group("percent") != "":
		b.percent, _ = strconv.ParseFloat(group("percent"), 64) // digits
	case b.Total > 0:
		b.percent = math.Floor(100 * b.Done / b.Total)
	}
	if b.percent > 100 || b.total != "" && b.Done > b.Total {
		return Bar{}, false
	}
	if b.Total == 0 && b.percent >= 0 {
		b.Done, b.Total = b.percent, 100
	}
	if b.done != "" && b.total == "" && r.unit != "" {
		b.done += " " + r.unit
	}
	b.done, b.total = spaced(b.done), spaced(b.total)
	return b, b.percent >= 0 || b.done != ""
}

func endsInDigit(s string) bool { return s != "" && s[len(s)-1] >= '0' && s[len(s)-1] <= '9' }

// size returns an amount as a number: 1.02G is 1,020,000,000. Only shares are calculated from it, so
// that all prefixes count as decimal is good enough.
func size(s string) float64 {
	end := strings.LastIndexAny(s, "0123456789") + 1
	n, err := strconv.ParseFloat(strings.ReplaceAll(s[:end], ",", ""), 64)
	if err != nil {
		return 0
	}
	if unit := strings.TrimSpace(s[end:]); unit != "" {
		switch unit[0] {
		case 'k', 'K':
			n *= 1e3
		case 'M':
			n *= 1e6
		case 'G':
			n *= 1e9
		case 'T':
			n *= 1e12
		case 'P':
			n *= 1e15
		}
	}
	return n
}

// spaced returns an amount with a blank before a unit of more than one letter: 12.5 MB, 41.0M.
func spaced(s string) string {
	end := strings.LastIndexAny(s, "0123456789") + 1
	if len(s)-end < 2 || s[end] == ' ' {
		return s
	}
	return s[:end] + " " + s[end:]
}

// rate returns a rate with three digits, or as many as it has before the point: 350 it/s.
func rate(s, per string) string {
	if s == "" {
		return ""
	}
	end := strings.LastIndexAny(s, "0123456789") + 1
	number, unit := s[:end], strings.TrimSpace(s[end:])
	if !strings.Contains(unit, "/") {
		unit += per
	}
	if whole, _, found := strings.Cut(number, "."); found && len(whole) >= 3 {
		number = whole
	}
	if unit == "x" {
		return number + unit
	}
	return strings.TrimSpace(number + " " + unit)
}

// duration reads 0:16, 01:02:03, 1 day, 2:03:04, 21s and 1m 5s. It returns -1 for anything else.
func duration(s string) time.Duration {
	if s == "" {
		return -1
	}
	var d time.Duration
	if days, rest, found := strings.Cut(s, ", "); found {
		n, _ := strconv.Atoi(days[:strings.IndexByte(days, ' ')])
		d, s = time.Duration(n)*24*time.Hour, rest
	}
	if strings.Contains(s, ":") {
		var seconds int
		for _, part := range strings.Split(s, ":") {
			n, err := strconv.Atoi(part)
			if err != nil {
				return -1
			}
			seconds = seconds*60 + n
		}
		return d + time.Duration(seconds)*time.Second
	}
	s = strings.ReplaceAll(strings.ReplaceAll(s, " ", ""), "min", "m")
	if n, err := strconv.Atoi(s[:strings.IndexByte(s+"d", 'd')]); err == nil && strings.Contains(s, "d") {
		d = time.Duration(n) * 24 * time.Hour
		if s = s[strings.IndexByte(s, 'd')+1:]; s == "" {
			return d
		}
	}
	rest, err := time.ParseDuration(s)
	if err != nil {
		return -1
	}
	return d + rest
}
