//go:build unix

package carry

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"asyncrepl/internal/text/pattern"
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

// failure returns an Error of the present step.
func (o *opening) failure(text, cure string, final bool) *Error {
	return &Error{o.step, text, cure, final}
}

// strange returns an Error for what our script and our program never say.
func (o *opening) strange(text string) *Error {
	return o.failure(text, "see what runs there: "+o.byHand(), false)
}

// words returns the last words of what runs there and of the carrier.
func (o *opening) words() []byte { return append(o.noise.last(), o.pipe.words.last()...) }

func (o *opening) said() string { return lastLines(o.words()) }

func (o *opening) byHand() string { return byHand(o.spec.Argv) }

// refused returns the error for what the script says. Its reason follows, until the end of the output.
func (o *opening) refused(why string) *Error {
	o.noise = Words{}
	for o.total <= maxNoise {
		line, err := o.line()
		if err != nil {
			break
		}
		o.note(line)
	}
	text := o.noise.String()
	switch why {
	case failTerminal:
		return &Error{Reach, "the carrier gives a terminal to what it runs, and a terminal changes what goes through it", "leave out its option for a terminal, which often is -t", true}
	case failMachine:
		return &Error{Carry, fmt.Sprintf("the place is %s, and the program is for %s", text, strings.ReplaceAll(o.prog.system, `\`, "")),
			`build async-repl for that system, and name the file in "binary"`, true}
	case failWorkspace:
		return &Error{Workspace, text, `make that directory there, or name another one in "workspace"`, false}
	case failSetup:
		o.step, o.setup = Start, true
		return o.lost(io.EOF)
	case failCarry:
		cure := fmt.Sprintf(`free %d MB in one of these directories, or set XDG_CACHE_HOME in "setup" to a directory that takes programs`, o.prog.size>>20+1)
		return &Error{Carry, text, cure, false}
	}
	return o.strange("it fails for an unknown reason: " + view.Line(why, maxLine))
}

// lost returns the error for a carrier that ended, or that did not answer in time if err says so.
func (o *opening) lost(err error) *Error {
	waited := errors.Is(err, os.ErrDeadlineExceeded)
	if !waited {
		o.pipe.await()
	}
	ended := false
	select {
	case <-o.pipe.ended:
		ended = true
	default:
	}
	o.pipe.Close()
	said := o.said()
	text := said
	switch seconds := time.Since(o.begun).Round(100 * time.Millisecond); {
	case waited:
		text = strings.TrimSuffix(fmt.Sprintf("nothing came for %s; %s", seconds, said), "; ")
	case said == "" && ended && o.pipe.status.Exited():
		text = fmt.Sprintf("%s ended with exit status %d and said nothing", view.Line(o.pipe.name, maxLine), o.pipe.status.ExitStatus())
	case said == "":
		text = view.Line(o.pipe.name, maxLine) + " closed the connection and said nothing"
	}
	switch {
	case o.setup:
		return o.failure("setup: "+text, `correct "setup": its lines get no input, and the last one must end soon and with status 0`, false)
	case o.step == Workspace:
		return o.failure(text, fmt.Sprintf("see whether %s can be used there: %s", view.Line(Quote(o.spec.Workspace), maxLine), o.byHand()), false)
	case waited && o.step == Reach:
		return o.failure(text, "let the login shell there neither wait nor ask, and see what it does: "+o.byHand(), false)
	case o.step == Start && strings.Contains(said, "xec format error"):
		return o.failure(text, `build async-repl for the system there, and name the file in "binary"`, true)
	case o.step == Reach && !waited:
		cure, final := refusal(string(o.words()), o.byHand())
		return o.failure(text, cure, final)
	}
	return o.failure(text, "see what happens by hand: "+o.byHand(), false)
}

// maxLine bounds a text that an Error repeats, in characters.
const maxLine = 200

// refusals are patterns of the words by which a carrier says why it does not get in, and what helps. The command to
// run by hand follows. Most words are those of OpenSSH 9.2; they are compared with what any carrier says, because many
// run ssh. The first that matches counts.
var refusals = []struct {
	said  func() *regexp.Regexp
	final bool
	cure  string
}{
	{pattern.Lazy(`IDENTIFICATION HAS CHANGED`), true, "if the place really has a new key, remove the old one with ssh-keygen -R and accept the new one once"},
	{pattern.Lazy(`Host key verification failed`), true, "check the key of the place and accept it once by hand"},
	{pattern.Lazy(`UNPROTECTED PRIVATE KEY FILE|Bad owner or permissions`), true, "make the file that ssh names yours alone with chmod 600"},
	{pattern.Lazy(`Bad configuration option`), true, "correct the configuration of ssh"},
	{pattern.Lazy(`Too many authentication failures`), true, "name one key, by IdentityFile and IdentitiesOnly in ~/.ssh/config"},
	{pattern.Lazy(`Permission denied \(.*(password|keyboard-interactive)`), true, "a place is entered without questions: install a key once with ssh-copy-id, or open a connection by hand that ssh then shares (ControlMaster)"},
	{pattern.Lazy(`cannot create resource "pods/exec"`), true, "give this user of Kubernetes the right to create pods/exec"},
	{pattern.Lazy(`Permission denied`), true, "give ssh a key that the place knows: ssh-copy-id installs one, ssh-add opens one that has a passphrase; try it by hand"},
	{pattern.Lazy(`Could not resolve hostname`), false, "correct the name of the host, or wait until it is known"},
	{pattern.Lazy(`Connection refused`), false, "check that sshd runs there and that the port is right"},
	{pattern.Lazy(`timed out|No route to host|Network is unreachable`), false, "check that the place is switched on and that the network leads there"},
}

// refusal returns what helps against what a carrier has said before a shell answered.
func refusal(said, byHand string) (cure string, final bool) {
	for _, r := range refusals {
		if r.said().MatchString(said) {
			return r.cure + ": " + byHand, r.final
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
