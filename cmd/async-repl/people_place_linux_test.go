package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"asyncrepl/internal/terminal/tty"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/polltest"
)

// A breakable is an exec place on a far machine, whose link a test can break.
type breakable struct {
	*farMachine
	file string // of places
	cut  string // while this file exists, no link can be opened
}

func newBreakable(t *testing.T) *breakable {
	t.Helper()
	m := newFarMachine(t)
	b := &breakable{farMachine: m, cut: filepath.Join(m.tmp, "cut")}
	carrier := append([]string{"/bin/sh", "-c", `if [ -e "$0" ]; then echo no route >&2; exit 1; fi; exec "$@"`, b.cut}, m.carrier(m.home)...)
	b.file = m.write(map[string]spec{"box": {"exec": carrier, "workspace": m.home + "/work", "python": realPython()}})
	return b
}

// lose breaks the link, and lets no other be opened.
func (b *breakable) lose() {
	b.t.Helper()
	must.Do(b.t, os.WriteFile(b.cut, nil, 0o600))
	for _, pid := range b.processes(dialCommand) {
		syscall.Kill(pid, syscall.SIGKILL) // an error: it has ended
	}
}

// restore lets links be opened again.
func (b *breakable) restore() {
	b.t.Helper()
	must.Do(b.t, os.Remove(b.cut))
}

// says waits until a command of a person prints something.
func (s *started) says(pattern string, args ...string) {
	s.t.Helper()
	polltest.Check(s.t, func() error {
		out, code := s.person(args...)
		if code == 0 && regexp.MustCompile(pattern).MatchString(out) {
			return nil
		}
		return fmt.Errorf("%s: exit %d, %s\nwithout %s", args, code, out, pattern)
	})
}

// drawn is what attach draws of a job that has printed "say: ".
const drawn = "\x1b[H\x1b[2Jsay:\x1b[1;6H"

// While the link to a place is lost, all that a person sees of a job there says so, and what was not delivered is an
// error.
func TestPersonSeesALostLink(t *testing.T) {
	t.Parallel()
	b := newBreakable(t)
	s := startServer(t, "REPL_PLACES="+b.file, "REPL_KEEPER=off", "XDG_RUNTIME_DIR="+t.TempDir())
	id := s.do("execute_command_async", "on", "box", "command", `while read -p "say$x: " x; do echo got $x; done`, "wait_seconds", 60).Header("Job ID")
	s.says(`(?m)^  `+id[:14]+`  waiting_input  shell at box  .*\(asks "say: "\)\n(ENGINE|$)`, "ps")

	seat := s.attach(id)
	seat.shows(drawn)
	s.says(`\(asks "say: "\)`, "ps") // the size of the seat's terminal answers nothing
	seat.types("one\r")
	seat.shows("got one")
	s.says(`\(asks "sayone: "\)`, "ps") // what is known when the link is lost
	b.lose()
	const link = `lost for \d+s \(reaching the place: no route; .*\); as of \d\d:\d\d:\d\d`
	s.says(`(?m)^  `+id[:14]+` .*\n      Link: `+link+`$`, "ps")
	s.says(`"link": "`+link+`"`, "ps", "--json")
	seat.shows("\x1b[0;7mLink: lost for ")
	seat.types("two\r")
	seat.shows("\a")
	for _, args := range [][]string{{"send", id, "x"}, {"send", "--key", "up", id}} {
		if out, code := s.person(args...); code != 1 || !regexp.MustCompile(`^async-repl: not delivered; link: `+link+`\n$`).MatchString(out) {
			t.Errorf("%s: exit %d, %q", args, code, out)
		}
	}
	s.says(`(?m)^async-repl: output can be missing: link: `+link+`$`, "logs", id)
	if out, code := s.person("cancel", id); code != 0 ||
		!regexp.MustCompile(`^`+id+` waiting_input; cancelling: interrupt; link: `+link+`; it is cancelled there when the link is back, and --force gives it up\n$`).MatchString(out) {
		t.Errorf("cancel: exit %d, %q", code, out)
	}
	if out, code := s.person("cancel", "--force", id); code != 0 || out != id+" cancelled (given up while box was out of reach; it may still run there)\n" {
		t.Errorf("cancel --force: exit %d, %q", code, out)
	}
	if out, code := s.person("cancel", id); code != 0 || !strings.HasSuffix(out, "; note: it had ended before, and nothing of it can be ended from here\n") {
		t.Errorf("cancel again: exit %d, %q", code, out)
	}
	if out, code := seat.ends(); code == 0 || !strings.Contains(out, "\nDetached: job "+id+" cancelled (given up") {
		t.Errorf("attach: exit %d, %q", code, out)
	}
	b.restore()
	s.do("execute_command_async", "on", "box", "command", "true", "wait_seconds", 60) // a call opens the link at once
	s.says(`cancelled \(given up while box was out of reach; ended there when it was back\)`, "ps", "--all")
}

// What an attached person types while the link is lost is not delivered, which the end says. Once the link is back, the
// terminal shows the job again.
func TestAttachOutlivesALink(t *testing.T) {
	t.Parallel()
	b := newBreakable(t)
	s := startServer(t, "REPL_PLACES="+b.file, "REPL_KEEPER=off", "XDG_RUNTIME_DIR="+t.TempDir())
	id := s.do("execute_command_async", "on", "box", "command", `while read -p 'say: ' x; do echo got $x; done`, "wait_seconds", 60).Header("Job ID")
	seat := s.attach(id)
	seat.shows("Attached to job " + id + " at box.")
	seat.shows(drawn)
	b.lose()
	seat.shows("\x1b[0;7mLink: lost for ")
	seat.types("lost\r")
	seat.shows("\a")
	b.restore()
	seat.shows(drawn) // the second time
	seat.types("two\r")
	seat.shows("got two")
	seat.types("\x1d")
	if out, code := seat.ends(); code != 1 || !strings.Contains(out, "\r\nasync-repl: some of what you typed was not delivered; link: lost for ") {
		t.Errorf("exit %d, %q", code, out)
	}
	if out, _ := s.person("logs", id); strings.Contains(out, "lost") {
		t.Errorf("the job has printed %q", out)
	}
}

// Ps shows what a killed server has left at a place, with and without records, until the next one takes it over.
func TestPersonSeesWhatWasLeft(t *testing.T) {
	t.Parallel()
	for name, more := range map[string][]string{"records": nil, "no records": {"REPL_HISTORY=0"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBreakable(t)
			s := startServer(t, append(more, "REPL_PLACES="+b.file, "REPL_KEEPER=off", "XDG_RUNTIME_DIR="+t.TempDir())...)
			kept := s.do("execute_command_async", "on", "box", "command", "echo kept; sleep 1000", "keep", true, "wait_seconds", 0).Header("Job ID")
			id := s.do("execute_python", "on", "box", "code", "x = input('who? ')", "wait_seconds", 60).Header("Job ID")
			quick := s.do("execute_command_async", "on", "box", "command", "true", "wait_seconds", 60).Header("Job ID")
			noted := func() bool {
				names := must.Get(filepath.Glob(filepath.Join(s.setting("REPL_STATE_DIR"), "places", "*.json")))(t)
				text := must.Get(os.ReadFile(names[0]))(t)
				return strings.Contains(string(text), `"jobs":["`+kept+`","`+id+`"]`)
			}
			polltest.Until(t, "the file of the key has the jobs", noted)
			if out, _ := s.person("ps"); strings.Contains(out, "LEFT") {
				t.Errorf("while the server lives:\n%s", out)
			}
			must.Do(t, s.cmd.Process.Kill())
			s.exit()
			head := `LEFT AT box \(on \S+\)\n  Its server has ended. The next one in ` + regexp.QuoteMeta(s.workspace()) + ` with the places of ` + regexp.QuoteMeta(b.file) + ` takes it over.\n`
			of := func(id, kind, title string) string {
				if more != nil {
					kind, title = "", ""
				}
				return `  ` + id[:14] + `  left there  ` + kind + ` +` + title + `\n`
			}
			want := head + of(id, "python box", regexp.QuoteMeta("x = input('who? ')")) + of(kept, "shell", "echo kept; sleep 1000") + `  session box\n`
			for _, args := range [][]string{{"ps"}, {"ps", "--all"}} {
				out, code := s.person(args...)
				if code != 0 || !regexp.MustCompile(`(?m)^`+want).MatchString(out) {
					t.Errorf("%s: exit %d\n%s\nwant %s", args, code, out, want)
				}
				if old := strings.Contains(out, quick[:14]+"  completed"); strings.Count(out, kept[:14]) != 1 || old != (more == nil && len(args) > 1) {
					t.Errorf("%s:\n%s", args, out)
				}
			}
			for _, word := range []string{"send", "cancel", "wait"} {
				args := []string{word, kept}
				if word == "send" {
					args = append(args, "x")
				}
				if out, code := s.person(args...); code == 0 || !strings.Contains(out, "job "+kept+" was left at box when its server ended, and can go on there") {
					t.Errorf("%s: exit %d, %s", word, code, out)
				}
			}
		})
	}
}

// A personSeat is a person's terminal with an attach that runs there.
type personSeat struct {
	t    testing.TB
	pty  *tty.PTY
	wait func() int

	mu    sync.Mutex
	shown []byte
	from  int // what comes before was seen
}

// attach starts attach at a terminal.
func (s *started) attach(id string) *personSeat {
	t := s.t
	t.Helper()
	p := &personSeat{t: t, pty: must.Get(tty.Open(24, 100))(t)}
	var reading sync.WaitGroup
	reading.Go(func() { // joined at the end of the test; ends with the terminal
		b := make([]byte, 4096)
		for {
			n, err := p.pty.Master().Read(b)
			p.mu.Lock()
			p.shown = append(p.shown, b[:n]...)
			p.mu.Unlock()
			if err != nil {
				return
			}
		}
	})
	t.Cleanup(reading.Wait)
	t.Cleanup(p.pty.Close)
	cmd := s.command("attach", id)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = p.pty.Slave(), p.pty.Slave(), p.pty.Slave()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	must.Do(t, cmd.Start())
	p.wait = sync.OnceValue(func() int {
		cmd.Wait() // an error: the exit status says it
		return cmd.ProcessState.ExitCode()
	})
	t.Cleanup(func() { cmd.Process.Kill(); p.wait() })
	return p
}

// shows waits until a text is written to the terminal, after those that were waited for before.
func (p *personSeat) shows(text string) {
	p.t.Helper()
	polltest.Check(p.t, func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		i := strings.Index(string(p.shown[p.from:]), text)
		if i < 0 {
			return fmt.Errorf("the terminal does not show %q after %q", text, p.shown[p.from:])
		}
		p.from += i + len(text)
		return nil
	})
}

func (p *personSeat) types(keys string) {
	p.t.Helper()
	must.Get(p.pty.Master().WriteString(keys))(p.t)
}

// ends returns all that the terminal has shown, and the exit status.
func (p *personSeat) ends() (out string, code int) {
	code = p.wait()
	polltest.Until(p.t, "the last words", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		out = string(p.shown)
		return strings.Contains(out, "Detached: ")
	})
	return out, code
}
