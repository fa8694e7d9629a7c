package progress

import (
	"regexp"
	"strings"

	"asyncrepl/internal/text/pattern"
)

// A row knows the bars of one program.
type row struct {
	program string
	has     []string              // each bar contains these, in order; they cost less than pattern
	pattern func() *regexp.Regexp // the groups are percent, done, total, rate and left
	unit    string                // the unit of done and total, if the bar leaves it out
	per     string                // the unit of the rate, if the bar leaves it out
}

// bar returns a row. Ellipses separate the pieces of has. The expression is compiled when a line has
// all of them, so that a server that shows no bars doesn't pay for the table.
func bar(program, has, expr string) row {
	return row{program: program, has: strings.Split(has, "…"), pattern: pattern.Lazy(expr)}
}

// mayMatch reports whether a line has what each bar of the program has.
func (r *row) mayMatch(line string) bool {
	for _, piece := range r.has {
		i := strings.Index(line, piece)
		if i < 0 {
			return false
		}
		line = line[i+len(piece):]
	}
	return true
}

func (r row) of(unit string) row   { r.unit = unit; return r }
func (r row) rated(per string) row { r.per = per; return r }

// Parts of patterns.
const (
	percent = `(?P<percent>\d{1,3}(?:\.\d+)?)%`
	counts  = `(?P<done>\d+)/(?P<total>\d+)`
	amount  = `\d[\d.,]*(?: ?[kKMGTP]?i?B\b| ?[kKMGTP]\b)?`
	amounts = `(?P<done>` + amount + `) ?/ ?(?P<total>` + amount + `)`
	short   = `\d[\d.,]*[kKMGTP]?` // an amount in a column
	speed   = `(?P<rate>[\d.,]+ ?[kKMGTP]?i?B/s)`
	clock   = `(?P<left>(?:\d+ days?, )?\d+:\d\d(?::\d\d)?)`
	spans   = `(?P<left>(?:\d+(?:d|h|min|m|s) ?)+)`
	either  = `(?P<left>(?:\d+ days?, )?\d+:\d\d(?::\d\d)?|(?:\d+(?:d|h|min|m|s) ?)+)`
	dotted  = `(?:\S+\.py(?:::.*)? .*|[.FEsxXRuU]+ +)` // pytest's line before the share
	alive   = ` in \d[\d.:]*s?(?: \((?:~` + either + `, )?(?:(?P<rate>[\d.,]+(?:[kKMGTP]?i?B/s)?)(?:/s|\)))?)?`
	curlAt  = `(?:\d+:\d\d:\d\d|\d+d +\d+h)`
)

// programs has the rows, in the order in which they are tried.
var programs = [...]row{
	bar("tqdm", "%|", percent+`\|[^|]*\| +`+amounts+` \[[\d:]+<(?:`+clock+`|\?)(?:, +(?P<rate>[\d.]+[^\],]*))?[\],]`),
	bar("tqdm without room for a bar", "%…/… […<", `^\s*(?:[^|]*: +)?`+percent+` `+amounts+` \[[\d:]+<(?:`+clock+`|\?)(?:, +(?P<rate>[\d.]+[^\],]*))?[\],]`),
	bar("tqdm without a total", " […:…, …/", `^(?:[^|]*: )?(?P<done>\d[\d.]*[A-Za-z]+) \[\d[\d:]+, +(?:\?[A-Za-z]+/[A-Za-z]+|(?P<rate>\d[\d.]*[A-Za-z]+/[A-Za-z]+))[\],]`),
	bar("keras", "/step", `^ *`+counts+` [━╸╺]+ `+either+` ?(?P<rate>\d+[mun]?s/step)`),
	bar("keras 2", "] - ", `^ *`+counts+` \[[=>.]+\] - (?:ETA: `+either+`)?`),
	bar("rich, pip", "━", `[━╸╺]{4,} +(?:`+percent+`(?: +|$))?(?:`+amounts+`(?: +|$))?(?:`+speed+`(?: +|$))?(?:(?:eta )?`+clock+`|(?:eta )?-:--:--|$)`),
	bar("rich without colours", "━…%", `(?:^| )━+╸? +`+percent+` +(?:`+clock+`|-:--:--)$`),
	bar("rich, pip, with more columns", "━", `[━╸╺]{4,} +(?:`+percent+`|`+amounts+`)(?: |$)`),
	bar("pip, raw", "Progress ", `^Progress (?P<done>\d+) of (?P<total>\d+)$`),
	bar("cargo", "] ", `^ +[A-Z][a-z]+ \[=*>? *\] (?:`+counts+`(?:[:;]|$)|`+percent+`(?:, `+speed+`)?)`),
	bar("wget", "%[", percent+`\[[ =>+]*\] +(?P<done>`+short+`)(?: +`+speed+`)?(?: +eta +`+spans+`)?`),
	bar("wget, dots", " ......", `^ *\d+[KM] [., ]+ `+percent+` +(?P<rate>[\d.]+[KMG])(?: `+spans+`|=|$)`).rated("B/s"),
	bar("wget without a total", "<=>", `\[ *<=> *\] +(?P<done>`+short+`) +`+speed),
	bar("curl, upload", ":…:…:…:", `^ *(?P<percent>\d{1,3}) +(?P<total>`+short+`) +0 +0 +\d+ +(?P<done>`+short+`) +\S+ +\S+ +`+curlAt+` +`+curlAt+
		` +(?:`+clock+`|--:--:--|\d+d +\d+h) +(?P<rate>`+short+`)$`).rated("B/s"),
	bar("curl", ":…:…:…:", `^ *(?P<percent>\d{1,3}) +(?P<total>`+short+`) +\d+ +(?P<done>`+short+`) +\d+ +\S+ +\S+ +\S+ +`+curlAt+` +`+curlAt+
		` +(?:`+clock+`|--:--:--|\d+d +\d+h) +(?P<rate>`+short+`)$`).rated("B/s"),
	bar("curl without a total", " --:--:-- ", `^ *\d+ +\S+ +0 +(?P<done>[1-9][\d.]*[kMGTP]?) +\d+ +\S+ +\S+ +\S+ +--:--:-- +`+curlAt+
		` +--:--:-- +(?P<rate>`+short+`)$`).rated("B/s"),
	bar("curl -#", "#", `^#{2,} +(?P<percent>\d{1,3}\.\d)%$`),
	bar("apt", "Progress: [", `Progress: \[ *`+percent+`\]`),
	bar("apt, download", "% [", `^`+percent+` \[(?:\d|Working|Waiting|Connecting)[^\]]*\](?: +`+speed+`(?: +`+spans+`)?)?$`),
	bar("dpkg", "Reading database", `^\(Reading database \.\.\. `+percent),
	bar("docker", "ing [", `^[0-9a-f]{12}: (?:Downloading|Extracting|Pushing) \[=*>? *\] +`+amounts),
	bar("docker build", "sha256:", `^(?:#\d+|(?: *=>)+) (?:extracting )?sha256:[0-9a-f]+ +`+amounts),
	bar("git", "% (", `^(?:remote: )?[A-Z][A-Za-z ]+: +`+percent+` \(`+counts+`\)(?:, [\d.]+ (?:[KMGT]iB|bytes) \| `+speed+`)?`),
	bar("uv", "... (", `^\S* ?[A-Z][a-z]+ing [a-z ]+\.\.\. \(`+counts+`\)`),
	bar("cmake", "%] ", `^\[ *`+percent+`\] \S`),
	bar("ninja", "] ", `^\[ *`+counts+`\] [A-Za-z/(]`),
	bar("pytest", "%]", `^(?:`+dotted+`|\[gw\d+\] )\[ *`+percent+`\](?:$| [A-Z]+ )`),
	bar("pytest, counts", " […/…]", `^`+dotted+`\[ *`+counts+`\]$`),
	bar("rsync", "B/s ", `^ *(?P<done>`+short+`) +`+percent+` +`+speed+` +`+clock+`(?: \(.*\))?$`),
	bar("pv", " […] [", `^(?:[^\[]*: +)?(?P<done>`+amount+`) \d+:\d\d:\d\d(?: \[ *(?P<rate>[\d.,]+ ?[kKMGTP]?i?B?/s)\])+ \[=*>? *\] +`+percent+`(?: +ETA (?:`+clock+`|\S+))?$`),
	bar("pv without a total", "<=>", `^(?:[^\[]*: +)?(?P<done>`+amount+`) \d+:\d\d:\d\d(?: \[ *(?P<rate>[\d.,]+ ?[kKMGTP]?i?B?/s)\])+ \[ *<=> *\]$`),
	bar("scp", "% …B/s ", `^\S.* +`+percent+` +(?P<done>\d+(?:[KMGTP]?B)?) +`+speed+` +(?:`+clock+` ETA|--:-- ETA|- stalled -|[\d:]+)$`),
	bar("click", "[…]  ", `\[(?:#+-*|-+)\]  +(?:`+counts+`(?: +|$))?(?:`+percent+`)?(?: *(?:\d+d \S+|`+clock+`))?(?:  \S.*)?$`),
	bar("progressbar2", "% …| Elapsed Time: ", `^ *`+percent+` (?:\((?P<done>[\d.,]+) of (?P<total>[\d.,]+)\)|of +\S+ [kKMGTP]?i?B) \|[^|]*\| Elapsed Time: [\d:]+(?: +ETA: +(?:`+clock+`|\S+))?`),
	bar("alive-progress", "/… […%] in ", `[|\]] (?:.* )?`+amounts+` \[`+percent+`\]`+alive).rated("it/s"),
	bar("alive-progress, by hand", "% […/…] in ", `[|\]] (?:.* )?`+percent+` \[`+amounts+`\]`+alive).rated("it/s"),
	bar("alive-progress, a share only", "% in …%/", `[|\]] (?:.* )?`+percent+` in \d[\d.:]*s? \((?:~`+either+`, )?[\d.]+%/`),
	bar("alive-progress without a total", "| …/s)", `\|[^|]*\| ?(?:\S+ )?(?P<done>\d+) in \S+ \((?P<rate>[\d.,]+)/s\)$`).of("items").rated("it/s"),
	bar("alive-progress without a total, bytes", "| …B/s)", `\|[^|]*\| ?(?:\S+ )?(?P<done>`+amount+`) in \S+ \(`+speed+`\)$`),
	bar("ffmpeg", "frame=", `^frame= *(?P<done>\d+) fps= *(?P<rate>[\d.]+) .*time=`).of("frames").rated("frames/s"),
	bar("ffmpeg, sound", "bitrate=", `^size= *(?P<done>\d+ ?[kKM]i?B) time=\S+ bitrate=.* speed= *(?P<rate>[\d.]+x)`),
}
