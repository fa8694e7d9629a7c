package installer

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"asyncrepl/internal/runner"
	"asyncrepl/internal/text/pattern"
)

// Result describes the effect of an install that succeeded and changed nothing in the environment's
// directories, from what the installer printed.
func (a Arguments) Result(printed string) string {
	ruledOut := strings.Contains(printed, "don't match your environment")
	switch {
	case installedLine().MatchString(printed):
		return "installed " + clip(installedLine().FindStringSubmatch(printed)[1], 80)
	case ruledOut && !strings.Contains(printed, "Requirement already satisfied"):
		return "nothing installed: ruled out by the marker"
	case a.Marked && satisfiedLine().MatchString(printed):
		return "nothing installed: already satisfied or ruled out by a marker"
	case satisfiedLine().MatchString(printed):
		return "already satisfied"
	}
	return "nothing was changed"
}

// Lines that pip and uv print after installs outside of the environment's directories (PIP_TARGET
// and the like), after those with nothing to do, and about packages that no longer fit.
var (
	installedLine = pattern.Lazy(`(?m)^Successfully installed (\S.*?)\s*$`)
	satisfiedLine = pattern.Lazy(`(?m)^(Requirement already satisfied|(Audited|Checked) \d+ package|\S+ is already installed with the same version)`)
	conflictLine  = pattern.Lazy(`(?m)^(\S+ \S+ requires .*, (?:but you have|which is not installed).*?)\.?\s*$`)
)

// Conflicts returns notes about packages that don't allow a version that is now installed.
func Conflicts(printed string) (notes []string) {
	for _, match := range conflictLine().FindAllStringSubmatch(printed, 3) {
		notes = append(notes, "conflict: "+match[1])
	}
	return notes
}

const wheelRemedy = "or ask for a version that has a wheel"

// failures are patterns that recognize a failure, each with a text for the receipt, in which $1 is
// the first group of the pattern. A failure is here only if the installer's last error doesn't name
// its cause, or if there is a remedy that the installer doesn't print. The first match counts. In the
// searched output, runs of blanks and line ends are one blank, because uv breaks lines at the width
// of the terminal.
var failures = []struct{ pattern, text string }{
	{`No space left on device|Disk quota exceeded`, "the disk is full; free some space, of pip's or uv's cache for one"},
	{`'(?:[^']*/)?([\w.-]*(?:gcc|g\+\+|cc|c\+\+|clang)[\w.+-]*)'(?: failed)?: No such file|([\w+-]*(?:gcc|clang|cc|\+\+)): (?:command )?not found|No such file or directory: '(g?cc|g\+\+|c\+\+|clang)'`,
		"building a package needs a compiler, and there is no $1$2$3; install one (Debian, Ubuntu: apt install build-essential), " + wheelRemedy},
	{`fatal error: (Python\.h): No such file`, "building a package needs $1; install Python's (Debian, Ubuntu: apt install python3-dev), " + wheelRemedy},
	{`fatal error: (\S+\.h\w*): No such file`, "building a package needs $1; install the development files of its library, " + wheelRemedy},
	{`fatal: (.+?) (?:fatal:|Please make sure|hint:|error: subprocess|×|WARNING:).*(?:× git .*did not run successfully|exit status 128: git )|Git operation failed.*?fatal: (.+?)(?: fatal:| Please make sure| hint:|$)`,
		"git: $1$2; check the address and who may read it"},
	{`CERTIFICATE_VERIFY_FAILED|invalid peer certificate`, "the index's certificate is not trusted; set PIP_CERT and SSL_CERT_FILE to a file with its authority"},
	{`Requires-Python (\S+?);? .*No matching distribution found for (\S+)`, "no version of $2 that fits runs on this Python (it requires $1); ask for another version"},
	{`The conflict is caused by: (.*?) (?:Additionally|To fix this)`, "the versions conflict: $1; loosen them"},
}

var (
	networkFailure = pattern.Lazy(`connection broken by.*\(from versions: none\)|connection-failed|Max retries exceeded|Failed to (?:fetch|download)|error sending request`)
	networkReason  = pattern.Lazy(`(?i)connection refused|connection reset|name or service not known|name resolution|no address associated|` +
		`network is unreachable|no route to host|timed out|cannot connect to proxy|tunnel connection failed`)
	networkHost = pattern.Lazy("host='([^']+)'|(https?://[^/\\s)`'\"]+)")
)

// unreachable returns the text about a host that could not be reached, or "". pip prints
// "connection broken by" even if it reaches the host on a later try.
func unreachable(flat string) string {
	why := networkReason().FindString(flat)
	if why == "" || !networkFailure().MatchString(flat) {
		return ""
	}
	host := "the index"
	if hosts := networkHost().FindAllStringSubmatch(flat, -1); hosts != nil {
		host = hosts[len(hosts)-1][1] + hosts[len(hosts)-1][2]
	}
	return fmt.Sprintf("%s can't be reached (%s); check the network and the address, "+
		"or set PIP_INDEX_URL and UV_DEFAULT_INDEX to an index that can be reached", host, strings.ToLower(why))
}

// IsForbidden reports whether an installer refused because the Python belongs to the system
// (https://peps.python.org/pep-0668/).
func IsForbidden(printed string) bool {
	flat := strings.Join(strings.Fields(printed), " ")
	return strings.Contains(flat, "externally-managed-environment") || strings.Contains(flat, "is externally managed")
}

// known returns the text about a failure with a known remedy, or "".
func known(printed string) string {
	flat := strings.Join(strings.Fields(printed), " ")
	if text := unreachable(flat); text != "" {
		return text
	}
	for _, f := range failures {
		expr := regexp.MustCompile(f.pattern)
		if match := expr.FindStringSubmatchIndex(flat); match != nil {
			return clip(string(expr.ExpandString(nil, f.text, flat, match)), 400)
		}
	}
	return ""
}

// The lines of an error: "ERROR: …" and "× …" of pip, "error: …" and below it "cause: …" of uv,
// which was "× …" and "╰─▶ …" before. If pip crashes, its error is "Exception:", and the reason
// is at the end of the traceback below: the last line that begins with the name of an exception.
var (
	errorLine = pattern.Lazy(`(?mi)^[ \t]*(?:ERROR:|×)[ \t]*(.*\S)[ \t\r]*$`)
	causeLine = pattern.Lazy(`(?mi)^[ \t]*(?:(?:cause|caused by):|[├╰]─▶)[ \t]+(.*\S)[ \t\r]*$`)
	exception = pattern.Lazy(`(?s)\nTraceback \(most recent call last\):.*\n(?:\w+\.)*([A-Z]\w*[a-z]\w*(?:: [^\n]*)?)(?:\n|$)`)
)

// Cause returns in one line why an installer failed: the text of a known failure, or else the
// installer's last error, or else its last line. The lines around it are in the job's output.
func Cause(printed string) string {
	if why := known(printed); why != "" {
		return why
	}
	why := lastMessage(printed, errorLine())
	if why == "" {
		return clip(LastLine(printed), 200)
	}
	if end := exception().FindStringSubmatch(printed); end != nil && why == "Exception:" {
		return clip(strings.TrimSpace(end[1]), 200)
	}
	if below := lastMessage(printed, causeLine()); below != "" {
		why = strings.TrimSuffix(why, ":") + ": " + below
	}
	return why
}

// lastMessage returns the first group of the last match of a line in printed, or "". uv breaks a
// line before a word that would exceed the terminal and indents the rest to the column of the
// message: the rest is joined again. Other lines at this column, such as a quoted requirement, are
// not joined.
func lastMessage(printed string, line *regexp.Regexp) string {
	all := line.FindAllStringSubmatchIndex(printed, -1)
	if all == nil {
		return ""
	}
	at := all[len(all)-1]
	message, width := printed[at[2]:at[3]], utf8.RuneCountInString(printed[at[0]:at[3]])
	column := utf8.RuneCountInString(printed[at[0]:at[2]])
	for next := range strings.Lines(strings.TrimPrefix(printed[at[1]:], "\n")) {
		rest := strings.TrimLeft(next, " │")
		word, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
		indent := utf8.RuneCountInString(next) - utf8.RuneCountInString(rest)
		if word == "" || indent != column || width+1+utf8.RuneCountInString(word) <= runner.Cols {
			break
		}
		rest = strings.TrimSpace(rest)
		message, width = message+" "+rest, column+utf8.RuneCountInString(rest)
	}
	return clip(message, 200)
}

// LastLine returns the last line of printed that is not blank.
func LastLine(printed string) string {
	printed = strings.TrimSpace(printed)
	return strings.TrimSpace(printed[strings.LastIndexByte(printed, '\n')+1:])
}
