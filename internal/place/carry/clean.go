//go:build unix

package carry

import (
	"context"

	"asyncrepl/internal/text/view"
)

// sweep follows enter and what names the directories. A program that a process executes stays, and so does the
// state of an engine whose key is in the arguments of a process. Where there is no /proc, nothing says which program
// an engine executes, so all stay while there is one.
const sweep = `
ar_args=$(cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\000' '\n'; ps -A -o args= 2>/dev/null)
ar_runs() {
	if [ ! -e /proc/self/exe ]; then
		case $ar_args in (*' placed -settings '*) return 0 ;; esac
		return 1
	fi
	for ar_exe in /proc/[0-9]*/exe; do
		[ ! "$ar_exe" -ef "$1" ] || return 0
	done
	return 1
}
ar_lives() { case $ar_args in (*'"key":"'"$1"'"'*) ;; (*) return 1 ;; esac; }
ar_last=
for ar_dir in "$ar_cache" "$ar_home" "$ar_temp/bin"; do
	[ "$ar_dir" != "$ar_last" ] && ar_usable "$ar_dir" || continue
	ar_last=$ar_dir
	for ar_file in "$ar_dir"/* "$ar_dir"/.[A-Z2-7]*; do
		ar_name=${ar_file##*/}
		case $ar_name in (.*) ar_size=26 ar_rest=${ar_name#.} ;; (*) ar_size=64 ar_rest=$ar_name ;; esac
		case $ar_rest in (*[!A-Z0-9a-f]*) continue ;; esac
		[ "${#ar_rest}" -eq "$ar_size" ] && [ -f "$ar_file" ] || continue
		if ar_runs "$ar_file"; then ar_say "used $ar_file"
		elif ar_why=$(rm -f -- "$ar_file" 2>&1); then ar_say "gone $ar_file"
		else ar_say "stuck $ar_why"
		fi
	done
	rmdir -- "$ar_dir" 2>/dev/null && rmdir -- "${ar_dir%/*}" 2>/dev/null
done
case ${XDG_STATE_HOME-} in (/*) ar_state=$XDG_STATE_HOME ;; (*) ar_state=$HOME/.local/state ;; esac
for ar_dir in "$ar_state"/async-repl/places-far/*; do
	[ -d "$ar_dir" ] || continue
	if ar_lives "${ar_dir##*/}"; then ar_say "used $ar_dir"
	elif ar_why=$(rm -rf -- "$ar_dir" 2>&1); then ar_say "gone $ar_dir"
	else ar_say "stuck $ar_why"
	fi
done
rmdir -- "$ar_state/async-repl/places-far" 2>/dev/null
ar_say swept
exit
}
`

// A Swept says what Clean has done.
type Swept struct {
	Gone  []string // the paths of removed files
	Used  []string // the paths of files that a running engine uses
	Stuck []string // the reasons why files could not be removed
}

// maxSwept bounds the number of lines about files.
const maxSwept = 10_000

// Clean removes the programs that Open has brought to a place, and the state of engines there. It keeps the files
// that a process on the machine that answers uses. The error is an *Error.
func Clean(ctx context.Context, s Spec) (Swept, error) {
	o, err := reach(ctx, s, limit)
	if err != nil {
		return Swept{}, err
	}
	defer o.pipe.Close()
	if _, failed := o.converse(sweepOf(s)); failed != nil {
		return o.swept, failed
	}
	return o.swept, nil
}

// note notes what the script says about a file, and reports whether there are too many.
func (s *Swept) note(word, text string) (tooMany bool) {
	text = view.Line(text, maxPath)
	switch word {
	case wordGone:
		s.Gone = append(s.Gone, text)
	case wordUsed:
		s.Used = append(s.Used, text)
	case wordStuck:
		s.Stuck = append(s.Stuck, text)
	}
	return len(s.Gone)+len(s.Used)+len(s.Stuck) > maxSwept
}
