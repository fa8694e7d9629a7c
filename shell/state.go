package shell

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A state is carried from one command of a shell session to the next. It is not changed once a
// session has it. A new session has the zero state with a directory.
type state struct {
	dir     string
	umask   string             // in the notation of the shell, such as 0022; empty: the server's
	options []string           // commands that set the options that differ from a new shell's
	changed map[string]*string // variables that differ from a new session's; nil: unset
}

// environment returns base with the changes of the state, and then given.
func (s state) environment(base []string, given map[string]string) []string {
	env := slices.DeleteFunc(slices.Clone(base), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		_, changed := s.changed[name]
		_, replaced := given[name]
		return changed || replaced
	})
	for name, value := range s.changed {
		if _, replaced := given[name]; value != nil && !replaced {
			env = append(env, name+"="+*value)
		}
	}
	for name, value := range given {
		env = append(env, name+"="+value)
	}
	return env
}

// keepGiven takes out of the state the variables that were given to this command only, unless the
// command has changed them.
func (s *state) keepGiven(given map[string]string, before state) {
	for name, value := range given {
		now := s.changed[name]
		if now == nil || *now != value {
			continue
		}
		if old, ok := before.changed[name]; ok {
			s.changed[name] = old
		} else {
			delete(s.changed, name)
		}
	}
}

// CanCarry reports whether a shell session can use the shell at path. In zsh and the Korn shells a
// trap on EXIT does not see a descriptor that was closed meanwhile.
func CanCarry(path string) bool {
	return isBash(path) || slices.Contains([]string{"sh", "dash", "ash"}, filepath.Base(path))
}

// reportFD is the descriptor to which the shell of a session reports.
const reportFD = "3"

// script returns a command line that runs line from the state on, and then reports the state.
//
// A report is fields that end with NUL: the options, variables and functions at the start, then
// once or twice the same at the end, with directory, umask and environment. The shell writes them
// itself, except for the environment, because only a program sees what is exported. The trap
// reports if the line leaves by exit, and the last command if the line sets its own trap. The
// programs of the line do not get the descriptor: for them it is closed, and what the shell keeps
// of it meanwhile is closed when a program is executed. Of the traces that the options xtrace and
// verbose ask for, the line's own are left: these options are set last, and off after the report.
func (s state) script(shell, line string) string {
	names := `printf '\0\0'`
	options := `set +o; printf '\0'`
	if isBash(shell) {
		names = `compgen -v; printf '\0'; compgen -A function; printf '\0'`
		options = `set +o; shopt -p; printf '\0'`
	}
	end := `{ { printf 'end\0%s\0' "$PWD"; umask; printf '\0'; ` + options + `; ` + names + `; ` + envPath + ` -0 || printf '` + noEnv + `\0'; printf '\0'; } >&` + reportFD + `; } 2>/dev/null || :`
	var b strings.Builder
	if s.umask != "" {
		b.WriteString("umask " + s.umask + "; ")
	}
	b.WriteString("{ " + options + "; " + names + "; } 2>/dev/null >&" + reportFD + "; ")
	last := end
	if lingers(line) {
		last += "; " + linger
	}
	b.WriteString("trap " + quote(last) + " EXIT; { ")
	if len(s.options) > 0 {
		b.WriteString("eval " + quote(strings.Join(s.options, "; ")) + "; ")
	}
	b.WriteString("eval " + quote(line) + "; } " + reportFD + `>&-; { set -- "$?"; } 2>/dev/null; ` + end + "; { set +xv; exec " + reportFD + `>&-; } 2>/dev/null; exit "$1"`)
	return b.String()
}

// envPath is the program that prints the environment. noEnv stands for the environment if that
// program can't be started, usually because the environment is too large.
const (
	envPath = "/usr/bin/env"
	noEnv   = "="
)

// quote returns s as one word of a shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// A report is the state that the shell of a session wrote at its end.
type report struct {
	dir, umask string
	options    []string // commands for the options that differ from a new shell's
	variables  []string // the new variables, exported or not
	functions  []string // the new functions
	env        map[string]string
	noEnv      bool // the environment is unknown
}

// maxReport is more than the environment of a program can have, in bytes.
const maxReport = 16 << 20

// errNoReport means that a shell ended without a full report.
var errNoReport = errors.New("its shell was replaced by exec, or left by exit with a trap of its own on EXIT")

// readReport reads the last full report in f.
func readReport(f *os.File) (report, error) {
	b, err := io.ReadAll(io.NewSectionReader(f, 0, maxReport))
	if err != nil {
		return report{}, fmt.Errorf("reading it: %w", err)
	}
	const atStart, atEnd = 3, 6 // fields, before the environment
	fields := strings.Split(string(b), "\x00")
	if len(fields) < atStart {
		return report{}, errNoReport
	}
	start, rest := fields[:atStart], fields[atStart:]
	begin := slices.Index(rest, "end")
	if begin < 0 || len(rest) < begin+1+atEnd {
		return report{}, errNoReport
	}
	rest = rest[begin+1:]
	end, env := rest[:atEnd-1], rest[atEnd-1:]
	last := slices.Index(env, "") // the end of the environment
	if last < 0 {
		return report{}, errNoReport
	}
	r := report{
		dir: end[0], umask: strings.TrimSpace(end[1]),
		options: newLines(start[0], end[2]), variables: newLines(start[1], end[3]), functions: newLines(start[2], end[4]),
		env: make(map[string]string),
	}
	r.noEnv = slices.Contains(env[:last], noEnv)
	for _, kv := range env[:last] {
		if name, value, ok := strings.Cut(kv, "="); ok {
			r.env[name] = value
		}
	}
	return r, nil
}

// newLines returns the lines of after that before does not have.
func newLines(before, after string) []string {
	old := map[string]bool{"": true}
	for line := range strings.Lines(before) {
		old[strings.TrimSuffix(line, "\n")] = true
	}
	var lines []string
	for line := range strings.Lines(after) {
		if line = strings.TrimSuffix(line, "\n"); !old[line] {
			lines = append(lines, line)
		}
	}
	return lines
}

// traces are the options that make a shell print what it does.
var traces = map[string]int{"set -o verbose": 1, "set -o xtrace": 2}

// ofShell are variables that each shell sets itself.
var ofShell = []string{"_", "PWD", "SHLVL"}

// state returns the state after a command. base is the environment of a new session.
func (r report) state(base []string) state {
	s := state{dir: r.dir, umask: r.umask, changed: make(map[string]*string)}
	for _, o := range r.options {
		if strings.HasPrefix(o, "set ") || strings.HasPrefix(o, "shopt ") {
			s.options = append(s.options, o)
		}
	}
	slices.SortStableFunc(s.options, func(a, b string) int { return cmp.Compare(traces[a], traces[b]) })
	old := make(map[string]string)
	for _, kv := range base {
		if name, value, ok := strings.Cut(kv, "="); ok {
			old[name] = value
		}
	}
	for name, value := range r.env {
		if was, ok := old[name]; !ok || was != value {
			s.changed[name] = &value
		}
	}
	for name := range old {
		if _, ok := r.env[name]; !ok {
			s.changed[name] = nil
		}
	}
	for _, name := range ofShell {
		delete(s.changed, name)
	}
	return s
}

// notCarried returns the names of the variables and functions that a command has made and that the
// next one will not find.
func (r report) notCarried() []string {
	bash := []string{"BASH_REMATCH", "COLUMNS", "COPROC", "LINES", "MAPFILE", "OPTARG", "PIPESTATUS", "REPLY"}
	var names []string
	for _, name := range r.variables {
		if _, exported := r.env[name]; !exported && !slices.Contains(bash, name) {
			names = append(names, name)
		}
	}
	for _, name := range r.functions {
		if _, exported := r.env["BASH_FUNC_"+name+"%%"]; !exported {
			names = append(names, name+"()")
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(names)))
}
