package shell

import (
	"path/filepath"
	"regexp"
	"strings"
	"sync"
)

// When the leader of a session exits, the kernel sends SIGHUP to the foreground process group of
// the terminal (https://man7.org/linux/man-pages/man2/setsid.2.html; disassociate_ctty in
// drivers/tty/tty_jobctrl.c). A shell without job control starts `nohup server &` in that group,
// and nohup does not always save it: node 20 resets SIGHUP to its default when it starts, and the
// subshell that runs `cd DIR && nohup server` never ignores it. The shell of such a line therefore
// makes an empty process group the foreground before it exits, and the kernel hangs up nothing.

// linger is a trap on EXIT, which leaves the exit status as it is. The programs get 0.1 s to start, so
// that the receipt names them and not the shell that forks them. Then a second shell, which has job
// control, gives the terminal to a subshell in another group. The subshell kills that shell
// before it can take the terminal back, and exits.
//
// The command substitution waits for both, or the receipt could list the subshell. bash 5.2 takes
// stderr for the terminal of `set -m`. dash 0.5.12 loops in `set -m` while it is not in the
// foreground, so its processor time is limited.
const linger = `{ command sleep .1; : "$(/bin/sh -c 'ulimit -t 1; set -m; (kill -9 $$); :' 2>/dev/tty)"; } 2>/dev/null`

// detaching matches a command line in which an & follows nohup or setsid, or disown follows an &.
// An & of &&, &>, >&, <& or |& does not count.
var detaching = sync.OnceValue(func() *regexp.Regexp {
	const background = `(?:^|[^&<>|])&(?:$|[^&>])`
	return regexp.MustCompile(`(?s)\b(?:nohup|setsid)\s.*` + background + `|` + background + `.*\bdisown\b`)
})

// lingers reports whether the shell of a command line must linger. It does not read quotes, so some
// others linger, too.
func lingers(line string) bool {
	named := strings.Contains(line, "nohup") || strings.Contains(line, "setsid") || strings.Contains(line, "disown")
	return named && detaching().MatchString(line)
}

// lingering returns argv with the trap, if it is a command line of a shell that must linger.
func lingering(argv []string) []string {
	path, line, ok := scriptOf(argv)
	if !ok || !lingers(line) || !CanCarry(path) && filepath.Base(path) != "zsh" {
		return argv
	}
	return Script(path, "trap "+quote(linger)+" EXIT; "+line)
}
