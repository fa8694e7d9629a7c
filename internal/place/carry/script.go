package carry

import (
	"cmp"
	"strconv"
	"strings"
)

// mark begins each line that the script writes. The script never has it at the beginning of a line of its own
// text, so a carrier that sends back what it gets is not mistaken for one that has a shell.
const mark = "@async-repl: "

// The words that follow the mark say what the shell does next.
const (
	wordHere  = "here"  // it has the full script, and enters the workspace
	wordSetup = "setup" // it runs setup
	wordCarry = "carry" // it searches for our program
	wordNeed  = "need"  // it waits for the bytes of our program
	wordStart = "start" // it becomes our program
	wordGone  = "gone"  // it has removed a file, whose path follows
	wordUsed  = "used"  // a file stays because it is used
	wordStuck = "stuck" // a file stays because it can't be removed: the reason follows
	wordSwept = "swept" // it has removed what it can
	wordFail  = "fail"  // it has failed: a word says why, and the reason follows in lines of its own
)

// The words that follow wordFail.
const (
	failTerminal  = "terminal"  // the input is a terminal
	failWorkspace = "workspace" // the workspace can't be made or entered
	failSetup     = "setup"     // setup has ended with a status
	failMachine   = "machine"   // our program does not fit the system, which follows
	failCarry     = "carry"     // no directory takes our program
)

// Environment is shell lines that set PATH and HOME if the place has left them out.
const Environment = `PATH=${PATH:-/usr/local/bin:/usr/bin:/bin}
[ -n "${HOME-}" ] || eval "HOME=~$(id -un 2>/dev/null)"
case $HOME in (/*) ;; (*) HOME=/ ;; esac
export PATH HOME
`

// The parts of the script. The names of all variables and functions begin with ar_, because setup
// runs in the same shell. The words in capitals are replaced, see fill.
const (
	// directories names the directories for our program. One that another user could write to is used for
	// nothing, which the mode and the owner in the words of ls say. The S gives no user a right: a directory in a volume
	// of Kubernetes inherits it if the pod has a fsGroup.
	directories = `
ar_cache=${XDG_CACHE_HOME:-$HOME/.cache}/async-repl/bin ar_home=$HOME/.cache/async-repl/bin ar_temp=${TMPDIR:-/tmp}/async-repl-$(id -u)
ar_usable() { [ "$1" != "$ar_temp/bin" ] || ar_ours $(ls -ldn -- "$ar_temp" 2>&1); }
ar_ours() { case $1,$3 in (drwx--[-S]---,"$(id -u)"|drwx--[-S]---.,"$(id -u)") ;; (*) false ;; esac; }
ar_system=$(uname -sm 2>/dev/null)
case $ar_system in (''|SYSTEM) ar_fits=y ;; (*) ar_fits= ;; esac
`
	// search prints the path of our program, or nothing. It runs in a subshell.
	search = `
for ar_dir in "$ar_cache" "$ar_home" "$ar_temp/bin"; do
	ar_file=$ar_dir/HASH
	[ "$ar_fits" ] && [ -f "$ar_file" ] && [ -x "$ar_file" ] && [ $(wc -c <"$ar_file") -eq SIZE ] && ar_usable "$ar_dir" && printf '%s\n' "$ar_file" && exit
done
ar_file=$(command -v async-repl 2>/dev/null)
case VERSION,$ar_file in
(,*) ;;
(*,/*) [ "$("$ar_file" version </dev/null 2>/dev/null | head -c 200)" != "async-repl "VERSION ] || printf '%s\n' "$ar_file" ;;
esac
`
	// enter goes to the workspace and runs setup.
	enter = `
{ ar_say() { printf '\n%s%s\n' 'MARK' "$1"; }
ar_fail() { ar_say "fail $1"; printf '%s\n' "$2"; exit 1; }
ar_start() { ar_say start; exec "$@"; }
ar_say here
[ ! -t 0 ] || ar_fail terminal ''
` + Environment + `ar_why=$(mkdir -p -- WORKSPACE 2>&1 && cd -- WORKSPACE 2>&1) && cd -- WORKSPACE || ar_fail workspace "$ar_why"
ar_say setup
eval SETUP </dev/null >&2 || ar_fail setup "it ended with exit status $?"
set +aefu; unset IFS
`
	// script is one command, so that the shell has read all of it before it executes the first word. Its first
	// line is empty, for a login shell that takes one. It begins with enter.
	//
	// In each directory a tiny program is tried first, because one that can't be written to or executed from
	// should not cost the time of carrying ours. If the disk is full, the rest of the program is read and
	// dropped, so that the next directory can be tried.
	script = enter + `ar_say carry
set -- COMMAND
` + directories + `
ar_file=$(` + search + `)
[ -z "$ar_file" ] || ar_start "$ar_file" "$@"
[ "$ar_fits" ] || ar_fail machine "$ar_system"
ar_last= ar_all=
for ar_dir in "$ar_cache" "$ar_home" "$ar_temp/bin"; do
	[ "$ar_dir" != "$ar_last" ] || continue
	ar_last=$ar_dir ar_file=$ar_dir/.NONCE
	if ! ar_why=$(umask 077; mkdir -p -- "$ar_dir" 2>&1); then :
	elif ! ar_usable "$ar_dir"; then ar_why="$ar_temp: not a directory of mode 700 that is yours"
	elif ! ar_why=$( (umask 077; printf '#!/bin/sh\n' >"$ar_file" && chmod 700 "$ar_file" && "$ar_file") 2>&1); then :
	elif ar_say need; ! ar_why=$( (head -c SIZE | { cat >"$ar_file" && exit; cat >/dev/null; exit 1; }) 2>&1); then :
	elif ! [ $(wc -c <"$ar_file") -eq SIZE ]; then ar_why="$ar_dir: the program has not arrived in full"
	elif ar_why=$(mv -f -- "$ar_file" "$ar_dir/HASH" 2>&1); then ar_start "$ar_dir/HASH" "$@"
	fi
	rm -f -- "$ar_file"
	case $ar_why in (*"$ar_dir"*|"$ar_temp"*) ;; (*) ar_why="$ar_dir: $ar_why" ;; esac
	ar_all="$ar_all$ar_why
"
done
ar_fail carry "$ar_all"
}
`
)

// Find returns a shell command that prints the path of the program where it runs, or nothing as long as no
// [Open] with the same program and version has brought it there. Setup must have run before, and HOME and PATH
// must be set.
func Find(file, version string) (string, error) {
	f, p, err := open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	return " (" + fill(directories+search, p, version) + ")", nil // with a blank: $(( would be arithmetic
}

// fill replaces the words that say which program is meant, and others that come with their values.
func fill(text string, p program, version string, others ...string) string {
	return strings.NewReplacer(append(others,
		"SYSTEM", p.system,
		"HASH", p.hash,
		"SIZE", strconv.FormatInt(p.size, 10),
		"VERSION", Quote(unique(version)),
	)...).Replace(text)
}

// scriptOf returns the script for s and its program. Nonce names the file that the program is written to
// until it is complete.
func scriptOf(s Spec, p program, nonce string) string {
	return fill(script, p, s.Version,
		"MARK", mark,
		"WORKSPACE", Quote(cmp.Or(s.Workspace, ".")),
		"SETUP", Quote(s.Setup),
		"COMMAND", Quote(s.Command...),
		"NONCE", nonce,
	)
}

// sweepOf returns the script by which Clean removes what was brought to the place of s.
func sweepOf(s Spec) string {
	return fill(enter+directories+sweep, program{system: "*"}, "", "MARK", mark, "WORKSPACE", Quote(cmp.Or(s.Workspace, ".")), "SETUP", Quote(s.Setup))
}

// unique returns a version that only one program can have, or else an empty one: a build from files that
// differ from any commit, or that no commit is known of, is not what another build of that version is.
func unique(version string) string {
	if strings.Contains(version, "modified") || strings.Contains(version, ".dev") && !strings.Contains(version, "+g") {
		return ""
	}
	return version
}

// Quote returns words for a POSIX shell.
func Quote(words ...string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		if quoted[i] = word; word == "" || strings.ContainsFunc(word, needsQuotes) {
			quoted[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}

func needsQuotes(r rune) bool {
	return !strings.ContainsRune("@%+=:,./-_", r) && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
}
