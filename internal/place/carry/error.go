package carry

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"asyncrepl/internal/text/view"
)

// ErrGone is the error of Open if our program there answers that the engine that it should join has ended. The
// Greeting then says which machine answered.
var ErrGone = errors.New("the engine there is gone")

// A Step is how far Open came.
type Step int

const (
	Reach     Step = iota // no shell of the place has answered yet
	Workspace             // making the workspace and going there
	Carry                 // finding our program there, or bringing it
	Start                 // setup, and our program until it greets
)

func (s Step) String() string {
	return [...]string{"reaching the place", "making the workspace there", "bringing async-repl there", "starting async-repl there"}[s]
}

// An Error says why Open has failed, in the words of the program that refused, and what helps.
type Error struct {
	Step  Step
	Text  string // one line, escaped
	Cure  string // says how to fix it, in the imperative
	Final bool   // another attempt fails, too, until a person has done what Cure says
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %s; %s", e.Step, e.Text, e.Cure) }

// maxLine bounds a text that an Error repeats, in characters.
const maxLine = 200

// refusals are words by which a carrier says why it does not get in, and what helps. %s is the command to run
// by hand. The words are those of OpenSSH 9.2; they are compared with what any carrier says, because many run
// ssh. The first that fits counts.
var refusals = []struct {
	words string
	final bool
	cure  string
}{
	{"IDENTIFICATION HAS CHANGED", true, "if the place really has a new key, remove the old one with ssh-keygen -R and accept the new one once: %s"},
	{"Host key verification failed", true, "check the key of the place and accept it once by hand: %s"},
	{"UNPROTECTED PRIVATE KEY FILE", true, "make your key unreadable for others with chmod 600: %s"},
	{"Bad owner or permissions", true, "make the file that ssh names yours alone with chmod 600: %s"},
	{"Bad configuration option", true, "correct the configuration of ssh: %s"},
	{"Too many authentication failures", true, "name one key, by IdentityFile and IdentitiesOnly in ~/.ssh/config: %s"},
	{"password", true, "a place is entered without questions: install a key once with ssh-copy-id, or open a connection by hand that ssh then shares (ControlMaster): %s"},
	{"keyboard-interactive", true, "a place is entered without questions: install a key once with ssh-copy-id, or open a connection by hand that ssh then shares (ControlMaster): %s"},
	{"Permission denied", true, "give ssh a key that the place knows: ssh-copy-id installs one, ssh-add opens one that has a passphrase; try it by hand: %s"},
	{"Could not resolve hostname", false, "correct the name of the host, or wait until it is known: %s"},
	{"Connection refused", false, "check that sshd runs there and that the port is right: %s"},
	{"timed out", false, "check that the place is switched on and that the network leads there: %s"},
	{"No route to host", false, "check that the place is switched on and that the network leads there: %s"},
	{"Network is unreachable", false, "check that the place is switched on and that the network leads there: %s"},
}

// refusal returns what helps against what a carrier has said before a shell answered.
func refusal(said, byHand string) (cure string, final bool) {
	denied := strings.Contains(said, "Permission denied (")
	for _, r := range refusals {
		if asks := r.words == "password" || r.words == "keyboard-interactive"; strings.Contains(said, r.words) && (denied || !asks) {
			return fmt.Sprintf(r.cure, byHand), r.final
		}
	}
	if strings.Contains(said, "/bin/sh") && (strings.Contains(said, "o such file") || strings.Contains(said, "ot found")) {
		return "a place must have /bin/sh: use another image, or a carrier that enters one", true
	}
	return "see what it says when run by hand: " + byHand, false
}

// byHand returns the command by which a person does what a carrier does, without what only we want of ssh.
func byHand(argv []string) string {
	if ours := SSH(nil); len(argv) > len(ours) && slices.Equal(argv[:len(ours)], ours) {
		argv = append([]string{"ssh"}, argv[len(ours):]...)
	}
	return view.Line(Quote(argv...), maxLine)
}
