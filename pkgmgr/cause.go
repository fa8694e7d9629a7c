package pkgmgr

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
)

// An installer that fails prints a page. What it comes to, and what to do about
// it, is told in one line, from words that pip and uv have printed for years;
// the page is in the output. Where the words are others its own error is told.

// A known failure is told by a pattern in the text of the installer, in which
// runs of blanks and line ends are one blank: uv breaks lines to the width of
// the terminal.
type failureWords struct {
	pattern func() *regexp.Regexp
	tell    func(m *Manager, match []string, text string) string
}

// plainly tells a failure in words that need nothing of the match but its first
// group, for which %s stands.
func plainly(format string) func(*Manager, []string, string) string {
	return func(_ *Manager, match []string, _ string) string {
		if strings.Contains(format, "%s") {
			return fmt.Sprintf(format, match[1])
		}
		return format
	}
}

const indexRemedy = "check the network, or set PIP_INDEX_URL and UV_DEFAULT_INDEX to an index that can be reached"

// failures are looked for in this order: what stops any install, what stops the
// fetching, then what the requirements themselves lack.
var failures = []failureWords{
	{pattern(`No space left on device|Disk quota exceeded`), plainly("the disk is full; free some space, of pip's or uv's cache for one")},
	{pattern(`Read-only file system(?:: '([^']+)'|.* at path "([^"]+)")?`), (*Manager).unwritable},
	{pattern(`(?:\[Errno 13\] Permission denied|Permission denied \(os error 13\))(?:: '([^']+)'|.* at path "([^"]+)")?`), (*Manager).unwritable},
	{pattern(`externally-managed-environment|is externally managed`), func(m *Manager, _ []string, _ string) string {
		if pl := m.found.Load(); pl != nil {
			return m.forbidden(pl.python)
		}
		return m.forbidden("this Python")
	}},

	{pattern(`Cannot find command '(git|hg|svn|bzr)'|(?i)(git) executable not found`), func(_ *Manager, match []string, _ string) string {
		program := strings.ToLower(match[1] + match[2])
		return fmt.Sprintf("there is no %s on PATH to fetch the repository; install it (Debian, Ubuntu: apt install %[1]s)", program)
	}},
	{pattern(`fatal: (.+?) ?(?: fatal:| Please make sure| error:| hint:|$)`), plainly("git: %s; check the address and who may read it")},
	{pattern(`HTTP error (\d{3}) while getting (\S+)|HTTP status [a-z]+ error \((\d{3}) [^)]*\) for url \(([^)]+)\)|ERROR: (\d{3}) [A-Za-z]+ Error: .+? for url: (\S+)`),
		func(_ *Manager, match []string, _ string) string {
			return fmt.Sprintf("%s answers HTTP %s; check the address", match[2]+match[4]+match[6], match[1]+match[3]+match[5])
		}},
	{pattern(`CERTIFICATE_VERIFY_FAILED|invalid peer certificate`), plainly("the index's certificate is not trusted; set PIP_CERT and SSL_CERT_FILE to a file with its authority")},
	{pattern(`connection broken by.*(\(from versions: none\)|Max retries exceeded)|connection-failed|Max retries exceeded|Failed to (?:fetch|download)|error sending request`), unreachable},
	{pattern(`(?:[Bb]ecause|and) (\S+) was not found in the cache`), plainly("%s is not in uv's cache, and UV_OFFLINE forbids the network")},

	{pattern(`(?:command|unable to execute) '([^']*/)?((?:[\w-]*-)?(?:gcc|g\+\+|cc|c\+\+|clang|clang\+\+)[\d.-]*)'(?: failed)?: No such file|([\w+-]*(?:gcc|clang|cc|\+\+)): (?:command )?not found|(?i:no c compiler|compiler cannot be found)|No such file or directory: '(gcc|cc|clang|g\+\+|c\+\+)'`),
		func(_ *Manager, match []string, text string) string {
			which := match[2] + match[3] + match[4]
			if which == "" {
				which = "C compiler"
			}
			return fmt.Sprintf("building %s needs a compiler, and there is no %s; install one (Debian, Ubuntu: apt install build-essential), or ask for a version that has a wheel", built(text), which)
		}},
	{pattern(`fatal error: (\S+\.h\w*): No such file`), func(_ *Manager, match []string, text string) string {
		remedy := "install the development files of its library"
		if match[1] == "Python.h" {
			remedy = "install Python's (Debian, Ubuntu: apt install python3-dev)"
		}
		return fmt.Sprintf("building %s needs %s; %s, or ask for a version that has a wheel", built(text), match[1], remedy)
	}},
	{pattern(`[Ff]ailed to (?:build|resolve requirements from|install requirements from)|Failed building wheel|Could not build wheels|metadata-generation-failed|subprocess-exited-with-error|build backend returned an error`), (*Manager).unbuilt},

	{pattern(`Cannot install .*? because these package versions have conflicting dependencies\. The conflict is caused by: (.*?) (?:Additionally|To fix this)`), conflict},
	{pattern(`Cannot install (.*?) because these package versions have conflicting`), plainly("the versions conflict: %s; loosen them")},
	{pattern(`Requires-Python (\S+).*No matching distribution found for (\S+)`), func(_ *Manager, match []string, _ string) string {
		return fmt.Sprintf("no version of %s that fits runs on this Python (it requires %s); ask for another version, or set REPL_PYTHON or REPL_VENV_DIR to another Python", match[2], strings.TrimRight(match[1], ";"))
	}},
	{pattern(`requirement (.+?) \(from versions: none\)`), plainly("%s was not found; check the name, and that the index can be reached")},
	{pattern(`requirement (.+?) \(from versions: ([^)]+)\)`), func(_ *Manager, match []string, _ string) string {
		have := strings.Split(match[2], ", ")
		return fmt.Sprintf("there is no %s; the newest are %s", fromWhere().ReplaceAllString(match[1], ""), strings.Join(have[max(0, len(have)-3):], ", "))
	}},
	{pattern(`there (?:is|are) no versions? of ([^\s,]+)`), plainly("there is no %s; ask for another version")},
	{pattern(`(?:[Bb]ecause|and) (\S+) was not found in`), plainly("%s was not found; check the name, and that it is on the index")},
	{pattern(`No solution found when resolving.*?[Bb]ecause (.+?),? we can conclude`), plainly("no solution: %s; loosen the versions")},

	{pattern(`ERROR: (\S+ is not a supported wheel on this platform)`), plainly("%s; ask for a wheel of this Python and system, or for the package by its name")},
}

// fromWhere is how pip says which requirement asked for a package.
var fromWhere = pattern(` \(from [^)]*\)`)

var blanks = pattern(`\s+`)

// known tells a failure that is known, else nothing.
func (m *Manager) known(text string) string {
	flat := blanks().ReplaceAllString(text, " ")
	for _, f := range failures {
		if match := f.pattern().FindStringSubmatch(flat); match != nil {
			return f.tell(m, match, text)
		}
	}
	return ""
}

var errorLine = pattern(`(?mi)^\s*(?:ERROR|× )[:\s]*(.*\S)\s*$`)

// cause tells in a line why an installer failed.
func (m *Manager) cause(text string) string {
	if why := m.known(text); why != "" {
		return why
	}
	if lines := errorLine().FindAllStringSubmatch(text, -1); lines != nil {
		return clip(lines[len(lines)-1][1], 80)
	}
	return clip(lastLine([]byte(text)), 80)
}

// forbidden tells of a Python that is not to be installed into.
func (m *Manager) forbidden(python string) string {
	remedy := "set REPL_VENV_DIR to a directory in which an environment may be made"
	if m.cfg.Python != "" {
		remedy = "unset REPL_PYTHON, and an environment is made in REPL_VENV_DIR or the workspace"
	}
	return fmt.Sprintf("%s belongs to the system, which forbids installs into it (PEP 668); %s", python, remedy)
}

// unwritable tells of a directory that can't be written.
func (m *Manager) unwritable(match []string, _ string) string {
	path := match[1] + match[2]
	pl := m.found.Load()
	where := "a directory"
	switch {
	case path != "" && pl != nil && pl.dir != "" && !within(path, pl.dir):
		return path + " can't be written; make it so, or set TMPDIR, PIP_CACHE_DIR or UV_CACHE_DIR to what can be"
	case pl != nil && pl.dir != "":
		where = pl.dir
	case path != "":
		where = path
	}
	remedy := "set REPL_VENV_DIR to a directory that can"
	if m.cfg.Python != "" {
		remedy = "unset REPL_PYTHON, and " + remedy
	}
	return where + " can't be written; " + remedy
}

func within(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

var (
	hosts = pattern(`host='([^']+)', port=(\d+)|(https?://[^/\s)` + "`" + `'"]+)`)
	// ofAddress tells a file that can't be fetched from an index that can't.
	ofAddress = pattern(`Failed to download|Failed to connect to \S+ while fetching|Max retries exceeded`)
	because   = pattern(`Connection refused|Name or service not known|Temporary failure in name resolution|No address associated with hostname|` +
		`Network is unreachable|No route to host|[Cc]onnection reset|(?i:timed out)|operation timed out`)
)

// unreachable tells which host could not be reached and why.
func unreachable(_ *Manager, _ []string, text string) string {
	failed := text
	if i := strings.Index(text, "connection broken by"); i >= 0 {
		failed = text[i:]
	} else if i := strings.Index(text, "Failed to "); i >= 0 {
		failed = text[i:]
	}
	host := "the index"
	if h := hosts().FindStringSubmatch(text); h != nil {
		host = h[3]
		if h[1] != "" {
			host = h[1] + ":" + h[2]
		}
	}
	if h := hosts().FindStringSubmatch(failed); h != nil && h[3] != "" {
		host = h[3]
	}
	remedy := indexRemedy
	if ofAddress().MatchString(text) {
		remedy = "check the address and the network"
	}
	if why := because().FindString(failed); why != "" {
		return fmt.Sprintf("%s can't be reached (%s); %s", host, strings.ToLower(why), remedy)
	}
	return fmt.Sprintf("%s can't be reached; %s", host, remedy)
}

var builds = pattern("Failed to build [`']?([^`'\\s]+)|Failed building wheel for (\\S+)|[Bb]uilding wheel for (\\S+)")

// fetched is what pip is at when it has not said yet what it builds.
var fetched = pattern(`(?m)^\s*(?:Processing|Collecting) (\S+)`)

// built names the package that could not be built.
func built(text string) string {
	if b := builds().FindStringSubmatch(text); b != nil {
		return filepath.Base(b[1] + b[2] + b[3])
	}
	before, _, _ := strings.Cut(text, "error: subprocess-exited")
	if f := fetched().FindAllStringSubmatch(before, -1); f != nil {
		return filepath.Base(f[len(f)-1][1])
	}
	return "a package"
}

// pipsOwn are the errors that pip prints around that of the build.
var pipsOwn = pattern(`subprocess-exited|metadata-generation|failed-wheel|(?i:failed (?:to build|building))|Could not build`)

var buildError = pattern(`(?m)^\s*(?:[│╰├─>]*\s*)?([A-Za-z_.]*(?:Error|Exception|error|ERROR): .*\S)\s*$`)

// unbuilt tells of a build that failed for a reason that is not known: by the
// last error inside.
func (m *Manager) unbuilt(_ []string, text string) string {
	if flat := blanks().ReplaceAllString(text, " "); strings.Contains(flat, "install build dependencies") || strings.Contains(flat, "build-system.requires") {
		return fmt.Sprintf("what %s needs to be built can't be installed; the output tells which", built(text))
	}
	why := "the output tells why"
	for _, e := range buildError().FindAllStringSubmatch(text, -1) {
		if !pipsOwn().MatchString(e[1]) {
			why = clip(e[1], 80)
		}
	}
	return fmt.Sprintf("building %s failed: %s", built(text), why)
}

var depends = pattern(`(?m)^\s{2,}((?:\S.* depends on|The user requested) .*\S)\s*$`)

// conflict tells which packages want what.
func conflict(_ *Manager, match []string, text string) string {
	var lines []string
	for _, d := range depends().FindAllStringSubmatch(text, 4) {
		lines = append(lines, d[1])
	}
	if lines == nil {
		lines = []string{clip(match[1], 80)}
	}
	return "the versions conflict: " + strings.Join(lines, ", ") + "; loosen them"
}

var broken = pattern(`(?m)^(\S+ \S+ requires .*, (?:but you have|which is not installed).*?)\s*$`)

// conflicts tells which packages an install that succeeded has left with
// versions that they don't allow, as pip says it.
func conflicts(text string) []string {
	var notes []string
	for _, b := range broken().FindAllStringSubmatch(text, 3) {
		notes = append(notes, "conflict: "+strings.TrimSuffix(b[1], "."))
	}
	return notes
}
