package shell

import (
	"regexp"
	"strings"
	"sync"
)

// When the leader of a session ends, the kernel hangs up the programs in the foreground of its
// terminal. A shell that has just forked for `nohup server &` or `setsid server &` often ends before
// the child has executed nohup or setsid, and the server never starts. The shell of such a line
// stays for a moment at its end.

// linger is what the shell does then, by a trap: its status stays that of the line.
const linger = "{ command sleep .1; } 2>/dev/null"

// background matches the & of a command in the background, not &&, &>, >&, <& or |&.
var background = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(^|[^&<>|])&($|[^&>])`) })

// lingers reports whether the shell of a command line must linger. It does not read quotes, so some
// others linger, too.
func lingers(line string) bool {
	return (strings.Contains(line, "nohup") || strings.Contains(line, "setsid")) && background().MatchString(line)
}

// lingering returns argv with the trap, if it is a command line of a shell that must linger.
func lingering(argv []string) []string {
	path, line, ok := scriptOf(argv)
	if !ok || !lingers(line) || !CanCarry(path) {
		return argv
	}
	return Script(path, "trap "+quote(linger)+" EXIT; "+line)
}
