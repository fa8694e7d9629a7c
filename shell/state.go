package shell

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A state is carried from one command of a shell session to the next. It is not changed once a
// session has it. A new session has the zero state with a directory.
type state struct {
	dir     string
	umask   string             // the shell's notation, such as 0022; empty: the server's
	options []string           // commands that set the options that differ from a new shell's
	changed map[string]*string // exported variables that differ from a new session's; nil: unset
	local   local
}

// A local is the part of a state that bash does not export to programs. Other shells have none.
type local struct {
	variables map[string]string // the commands that declare them, as declare -p prints them
	functions string            // declare -f prints them so
	aliases   []string          // the commands that define them, as alias -p prints them
}

// maxLocal bounds the size of a local, in bytes.
const maxLocal = 1 << 20

// size returns the size of l as bash prints it.
func (l local) size() int {
	n := len(l.functions)
	for _, c := range l.variables {
		n += len(c)
	}
	for _, c := range l.aliases {
		n += len(c)
	}
	return n
}

// text returns the commands that give bash all of l but the variables that are given to the next
// command only. They begin by closing localFD, from which bash has read all of them by then. Arrays
// need declare itself as the first word, so a function of that name waits for its turn. Functions
// come before the aliases, which would change them.
func (l local) text(given map[string]string) string {
	var b strings.Builder
	for name, c := range l.variables {
		if _, replaced := given[name]; !replaced {
			b.WriteString(c + "\n")
		}
	}
	for name, f := range definitions(l.functions) {
		b.WriteString(builtin + "eval " + quote(f) + " 2>/dev/null || " + builtin + `printf '%s\0' ` + quote(unread+name) + " >&" + hiddenFD + "\n")
	}
	for _, c := range l.aliases {
		b.WriteString(builtin + c + "\n")
	}
	if b.Len() == 0 {
		return ""
	}
	return `\exec ` + localFD + "<&-\n" + builtin + "unset -f declare\n" + b.String()
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
// command has changed them. What the session had under their names it has again.
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
		if old, ok := before.local.variables[name]; ok {
			s.local.variables[name] = old
		}
	}
}

// CanCarry reports whether a shell session can use the shell at path. In zsh and the Korn shells a
// trap on EXIT does not see a descriptor that was closed meanwhile.
func CanCarry(path string) bool {
	return isBash(path) || slices.Contains([]string{"sh", "dash", "ash"}, filepath.Base(path))
}

// reportFD is the descriptor to which the shell of a session reports. From localFD it reads the
// commands that give it the local part of its state.
//
// bash moves reportFD to hiddenFD, which no program gets. While a descriptor is closed for a group of
// commands, bash keeps a copy of it that is closed on exec, in the first descriptor from 10 on. A copy
// of that copy is closed on exec, too (do_redirection_internal in bash's redir.c).
const (
	reportFD = "3"
	localFD  = "4"
	hiddenFD = "59"
	hide     = `{ \exec ` + hiddenFD + `>&10; } ` + reportFD + `>&- 2>/dev/null; \exec ` + reportFD + `>&-; `
)

// builtin begins our own commands for bash, so that they run no function and no alias of the
// session. Only a function named builtin itself can break them. exec can't have it: it would undo its
// redirection.
const builtin = `\builtin `

// script returns a command line that runs line from the state on, and then reports the state.
// readLocal says that localFD is open.
//
// A report is fields that end with NUL: options and variables at the start, and once or twice the
// state at the end. The shell writes them itself, except for the environment, because only a program
// sees what is exported. The trap reports if the line leaves by exit, and the last command if the
// line sets its own trap. The programs of the line do not get the descriptor: dash closes it for the
// line, and what it keeps of it meanwhile is closed when a program is executed. In bash that would not
// do. It would run the trap with the descriptor closed if a function exits, and a line that opens
// descriptor 10 would write into the report.
//
// What the options xtrace and verbose and a trap on DEBUG print of the line is left: the options are
// set last, and all are off before they could print into the report.
//
// bash expands the aliases that it carries. It reads functions with extglob set, which one of them
// can need, and sets it with the other options to what it was.
func (s state) script(shell, line string, readLocal bool) string {
	bash := isBash(shell)
	own := func(command string) string { return command + "; " }
	if bash {
		own = func(command string) string { return builtin + command + "; " }
	}
	nul := own(`printf '\0'`)
	options, untrace, variables, local := own("set +o"), own("set +xv"), "", ""
	fd, closed := reportFD, reportFD+">&-"
	if bash {
		options, untrace = options+own("shopt -p"), untrace+own("trap - DEBUG")
		variables = own("compgen -v")
		local = own("declare -p") + nul + own("declare -f") + nul + own("alias -p") + nul
		fd, closed = hiddenFD, ""
	}
	env := envPath + " -0 || " + own("printf '"+noEnv+`\0'`) + nul
	end := "{ " + own(`printf 'end\0%s\0' "$PWD" >&`+fd+" && { { "+options+"} >&"+fd+"; "+untrace+
		"{ "+nul+own("umask")+nul+env+local+"} >&"+fd+"; }") + "} >/dev/null 2>&1 || " + own(":")
	trap := end
	if lingers(line) {
		trap += linger
	}

	var b strings.Builder
	if s.umask != "" {
		b.WriteString(own("umask " + s.umask))
	}
	if bash {
		b.WriteString(own("shopt -s expand_aliases"))
	}
	b.WriteString("{ " + options + nul + variables + nul + "} 2>/dev/null >&" + reportFD + "; ")
	if bash {
		b.WriteString(hide)
	}
	b.WriteString(own("trap " + quote(trap) + " EXIT"))
	if readLocal {
		b.WriteString(own("shopt -s extglob") + own(". /dev/fd/"+localFD))
	}
	b.WriteString("{ ")
	if len(s.options) > 0 {
		var set strings.Builder
		for _, o := range s.options {
			set.WriteString(own(o))
		}
		b.WriteString(own("eval " + quote(set.String())))
	}
	b.WriteString(own("eval "+quote(line)) + "} " + closed + "; { " + own(`set -- "$?"`) + "} >/dev/null 2>&1; ")
	b.WriteString(end + `{ \exec ` + fd + ">&-; } >/dev/null 2>&1; " + own(`exit "$1"`))
	return b.String()
}

// unread begins the field of a report that names a function that bash could not read.
const unread = "unread "

// definitions returns the functions that declare -f has printed, by their names. Each is read by itself,
// because bash prints some in a way that it can't read: a list with a here-document that is not its
// first command (measured with 5.2).
func definitions(text string) iter.Seq2[string, string] {
	return func(yield func(name, definition string) bool) {
		for len(text) > 0 {
			end := len(text)
			for at := 0; ; { // a function ends where the next one begins
				i := strings.Index(text[at:], "\n}\n")
				if i < 0 {
					break
				}
				at += i + len("\n}\n")
				if line, _, _ := strings.Cut(text[at:], "\n"); strings.HasSuffix(line, " () ") {
					end = at
					break
				}
				at-- // the newline can begin another end
			}
			name, _, _ := strings.Cut(text, " () ")
			if !yield(strings.TrimPrefix(name, "function "), text[:end]) {
				return
			}
			text = text[end:]
		}
	}
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
	options    []string        // commands for the options that differ from a new shell's
	started    map[string]bool // bash: the variables at the start
	env        map[string]string
	noEnv      bool // the environment is unknown

	// Of bash: see local.
	variables []string
	functions string
	aliases   []string
	cut       bool     // they are too large to be read
	unread    []string // the functions that could not be read at the start
}

// maxReport is more than the environment of a program can have, in bytes.
const maxReport = 16 << 20

// errNoReport means that a shell ended without a full report.
var errNoReport = errors.New("its shell was replaced by exec, or left by exit with a trap of its own on EXIT")

// readReport reads the first full report in f.
func readReport(f *os.File) (report, error) {
	b, err := io.ReadAll(io.NewSectionReader(f, 0, maxReport))
	if err != nil {
		return report{}, fmt.Errorf("reading it: %w", err)
	}
	const atStart, atEnd = 2, 3 // fields, before the environment
	fields := strings.Split(string(b), "\x00")
	if len(fields) < atStart {
		return report{}, errNoReport
	}
	start, rest := fields[:atStart], fields[atStart:]
	begin := slices.Index(rest, "end")
	if begin < 0 || len(rest) < begin+1+atEnd {
		return report{}, errNoReport
	}
	end, env := rest[begin+1:begin+1+atEnd], rest[begin+1+atEnd:]
	last := slices.Index(env, "") // the end of the environment
	if last < 0 {
		return report{}, errNoReport
	}
	// Whether extglob is set must be restored, because a shell sets it to read functions.
	before := strings.Replace(start[0], "extglob", "", 1)
	r := report{
		dir: end[0], options: newLines(before, end[1]), umask: strings.TrimSpace(end[2]),
		started: make(map[string]bool), env: make(map[string]string),
	}
	for _, name := range strings.Fields(start[1]) {
		r.started[name] = true
	}
	for _, field := range rest[:begin] {
		if name, ok := strings.CutPrefix(field, unread); ok {
			r.unread = append(r.unread, name)
		}
	}
	r.noEnv = slices.Contains(env[:last], noEnv)
	for _, kv := range env[:last] {
		if name, value, ok := strings.Cut(kv, "="); ok {
			r.env[name] = value
		}
	}
	if more := env[last+1:]; len(more) > 3 {
		r.variables, r.functions, r.aliases = commands(more[0]), more[1], commands(more[2])
	} else {
		r.cut = len(b) == maxReport
	}
	return r, nil
}

// commands splits the commands that declare -p or alias -p has printed. A quoted word in one can
// hold newlines.
func commands(text string) (list []string) {
	var quote byte   // the quote that the text at i is in, or 0
	escapes := false // a backslash quotes the next byte
	begin := 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && (quote != '\'' || escapes):
			i++
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '"' || c == '\''):
			quote, escapes = c, i > 0 && text[i-1] == '$'
		case quote == 0 && c == '\n':
			list = append(list, text[begin:i])
			begin = i + 1
		}
	}
	return list
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

// ofBash are variables that bash sets itself once it has begun, or whose value means something to one
// shell only.
var ofBash = []string{"BASH_REMATCH", "BASH_XTRACEFD", "COLUMNS", "COPROC", "COPROC_PID", "FUNCNAME", "LINES", "MAPFILE", "OLDPWD", "OPTARG", "PIPESTATUS", "POSIXLY_CORRECT", "REPLY"}

// state returns the state after a command that was started with env, and the names of the variables
// that it lacks because they are readonly. base is the environment of a new session.
func (r report) state(base, env []string) (s state, readonly []string) {
	s = state{dir: r.dir, umask: r.umask, changed: make(map[string]*string)}
	for _, o := range r.options {
		if strings.HasPrefix(o, "set ") || strings.HasPrefix(o, "shopt ") {
			s.options = append(s.options, o)
		}
	}
	slices.SortStableFunc(s.options, func(a, b string) int { return cmp.Compare(traces[a], traces[b]) })
	old := variables(base)
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

	s.local = local{variables: make(map[string]string), functions: r.functions, aliases: r.aliases}
	given := variables(env)
	for _, c := range r.variables {
		_, rest, _ := strings.Cut(c, " ") // the rest follows "declare"
		flags, rest, _ := strings.Cut(rest, " ")
		name, _, _ := strings.Cut(rest, "=")
		_, exported := r.env[name]
		_, wasGiven := given[name]
		switch {
		case exported, r.started[name] && !wasGiven, slices.Contains(ofShell, name), slices.Contains(ofBash, name):
		case strings.Contains(flags, "r"):
			readonly = append(readonly, name)
		default:
			s.local.variables[name] = c
		}
	}
	return s, readonly
}

// variables returns the variables of an environment.
func variables(env []string) map[string]string {
	all := make(map[string]string, len(env))
	for _, kv := range env {
		if name, value, ok := strings.Cut(kv, "="); ok {
			all[name] = value
		}
	}
	return all
}
