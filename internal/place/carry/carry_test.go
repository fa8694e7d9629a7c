//go:build linux

package carry

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"asyncrepl/internal/place/far"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/polltest"
)

// greets is the line by which a program of these tests greets as ours does. Its machine is the current
// directory, its boot the directory of its file.
const greets = `printf '@async-repl {"protocol":1,"version":"1.2.3","machine":"%s","boot":"%s","start":"s1"}\n' "$PWD" "${0%/*}"
`

// echoes is a program that greets and sends back what it gets.
const echoes = greets + "exec cat\n"

// writeProgram writes a program of a shell.
func writeProgram(t testing.TB, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "program")
	must.Do(t, os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o700))
	return path
}

// bare returns a carrier that gives its shell a home and little more.
func bare(t testing.TB, variables ...string) (argv []string, home string) {
	t.Helper()
	home = t.TempDir()
	return append([]string{"env", "-i", "HOME=" + home, "TMPDIR=" + t.TempDir()}, variables...), home
}

// opened is Open of what must be possible. The pipe is closed with the test.
func opened(t testing.TB, s Spec) (*Pipe, far.Greeting) {
	t.Helper()
	s.Env = os.Environ()
	p, g, err := Open(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closed(t, p) })
	return p, g
}

// closed closes a pipe. No process of the carrier's group is left then.
func closed(t testing.TB, p *Pipe) {
	t.Helper()
	p.Close()
	if err := syscall.Kill(-p.carrier.Self().PID, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the group of the carrier: %v", err)
	}
}

// refusedBy is Open of what must fail with an *Error.
func refusedBy(t testing.TB, ctx context.Context, s Spec) *Error {
	t.Helper()
	if s.Env == nil {
		s.Env = os.Environ()
	}
	p, _, err := Open(ctx, s)
	if err == nil {
		p.Close()
		t.Fatal("it got in")
	}
	var failed *Error
	if !errors.As(err, &failed) {
		t.Fatalf("the error is %v", err)
	}
	for _, text := range []string{failed.Text, failed.Cure} {
		if text == "" || len(text) > 2000 || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			t.Errorf("a text of the error is %q", text)
		}
	}
	return failed
}

// checkEcho sends size bytes each way, in both directions at once.
func checkEcho(t testing.TB, p *Pipe, size int) {
	t.Helper()
	const piece = "0123456789abcdef\n\x00\xff\r\n~."
	sent := bytes.Repeat([]byte(piece), size/len(piece)+1)[:size]
	var wrote error
	var writer sync.WaitGroup
	writer.Go(func() { _, wrote = p.Write(sent) }) // joined here
	got := make([]byte, size)
	_, err := io.ReadFull(p, got)
	if err != nil {
		p.Close() // the writer ends
	}
	writer.Wait()
	if err != nil || wrote != nil || !bytes.Equal(got, sent) {
		t.Errorf("an echo of %d bytes: %v, %v, equal: %v", size, wrote, err, bytes.Equal(got, sent))
	}
}

// names returns the names in a directory.
func names(t testing.TB, dir string) (found []string) {
	t.Helper()
	for _, e := range must.Get(os.ReadDir(dir))(t) {
		found = append(found, e.Name())
	}
	return found
}

// A program is carried once, and what the user of the place finds is this one file.
func TestCarriesOnce(t *testing.T) {
	t.Parallel()
	argv, home := bare(t)
	s := Spec{Argv: argv, Program: writeProgram(t, echoes), Workspace: filepath.Join(t.TempDir(), "it's", "new")}
	dir := filepath.Join(home, ".cache/async-repl/bin")
	var first os.FileInfo
	for range 2 {
		p, g := opened(t, s)
		if want := (far.Greeting{Protocol: 1, Version: "1.2.3", Machine: s.Workspace, Boot: dir, Start: "s1"}); g != want {
			t.Errorf("the greeting is %+v, want %+v", g, want)
		}
		checkEcho(t, p, 1<<20)
		found := names(t, dir)
		if len(found) != 1 {
			t.Fatalf("there are %q", found)
		}
		st := must.Get(os.Stat(filepath.Join(dir, found[0])))(t)
		if first == nil {
			first = st
		}
		if !os.SameFile(first, st) || st.Mode().Perm() != 0o700 {
			t.Errorf("the program was carried again, or its mode is %v", st.Mode())
		}
	}
}

// A file there that is not our program in full is replaced.
func TestDamagedProgramIsReplaced(t *testing.T) {
	t.Parallel()
	argv, home := bare(t)
	s := Spec{Argv: argv, Program: writeProgram(t, echoes)}
	p, g := opened(t, s)
	closed(t, p)
	for _, damage := range []func(file string) error{
		func(file string) error { return os.Truncate(file, 20) },
		func(file string) error { return os.Chmod(file, 0o600) },
		os.Remove,
	} {
		must.Do(t, damage(filepath.Join(g.Boot, names(t, g.Boot)[0])))
		p, _ := opened(t, s)
		checkEcho(t, p, 100)
	}
	if found := names(t, filepath.Join(home, ".cache/async-repl/bin")); len(found) != 1 {
		t.Errorf("there are %q", found)
	}
}

// What a shell would change arrives as it was.
func TestArgumentsAndSetup(t *testing.T) {
	t.Parallel()
	argv, _ := bare(t)
	args := []string{"dial", "a'b", `$HOME "c" \n`, "", "*", "two\nlines", "-x"}
	p, _ := opened(t, Spec{
		Argv: argv, Workspace: t.TempDir(), Command: args,
		Program: writeProgram(t, greets+`printf '%s\0' "$@" "$SET" "$IFS" "$-"`),
		Setup:   "echo printed; echo said >&2; read x && echo there was input\nexport SET='it is'; IFS=x; ar_dir=y; set -euf # comment",
	})
	raw := must.Get(io.ReadAll(p))(t)
	got := strings.Split(string(raw), "\x00")
	want := append(args, "it is", " \t\n")
	if len(got) < len(want) || !equal(got[:len(want)], want) {
		t.Errorf("the program got %q, want %q", got, want)
	}
	closed(t, p)
	if words := p.words.String(); words != "printed; said" {
		t.Errorf("the words of setup are %q", words)
	}
}

func equal(a, b []string) bool { return strings.Join(a, "\x00") == strings.Join(b, "\x00") }

// The script is for every shell.
func TestShells(t *testing.T) {
	t.Parallel()
	for _, shell := range []string{"dash", "bash", "busybox ash", "ksh", "mksh", "zsh"} {
		program, _, _ := strings.Cut(shell, " ")
		if _, err := exec.LookPath(program); err != nil {
			t.Logf("there is no %s", program)
			continue
		}
		argv, home := bare(t)
		p, g := opened(t, Spec{Argv: append(argv, "PATH="+os.Getenv("PATH"), "sh", "-c", "exec "+shell), Program: writeProgram(t, echoes), Setup: "true"})
		checkEcho(t, p, 1<<20)
		if g.Boot != filepath.Join(home, ".cache/async-repl/bin") {
			t.Errorf("%s: the program is in %s", shell, g.Boot)
		}
	}
}

// A program on the PATH is used if it is ours, and only then.
func TestProgramOnThePath(t *testing.T) {
	t.Parallel()
	const version = "0.1.0.dev0+g0123456789ab"
	for _, test := range []struct {
		name, there, version string
		used                 bool
	}{
		{"the same", "echo async-repl " + version, version, true},
		{"another", "echo async-repl 0.0.9", version, false},
		{"one that prints without end", "yes", version, false},
		{"one that fails", "exit 3", version, false},
		{"one that reads", "read x && echo async-repl " + version + " || echo none", version, false},
		{"a build that has no name of its own", "echo async-repl " + version + ".modified", version + ".modified", false},
		{"nothing said of the version", "echo 'async-repl '", "", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			must.Do(t, os.WriteFile(filepath.Join(dir, "async-repl"), []byte("#!/bin/sh\n[ \"$1\" != version ] || { "+test.there+"; exit; }\n"+echoes), 0o700))
			argv, home := bare(t, "PATH="+dir+":/usr/bin:/bin")
			_, g := opened(t, Spec{Argv: argv, Program: writeProgram(t, echoes), Version: test.version})
			want := filepath.Join(home, ".cache/async-repl/bin")
			if test.used {
				want = dir
			}
			if g.Boot != want {
				t.Errorf("the program in %s was started, want that in %s", g.Boot, want)
			}
		})
	}
}

// What waits at a place for our program finds it as soon as it is there, and where Open has put it.
func TestFind(t *testing.T) {
	t.Parallel()
	argv, home := bare(t, "PATH="+os.Getenv("PATH"))
	s := Spec{Argv: argv, Program: writeProgram(t, echoes)}
	find := func() string {
		command := must.Get(Find(s.Program, ""))(t)
		out, err := exec.Command(argv[0], append(argv[1:len(argv):len(argv)], "sh", "-c", "set -f; ar_dir=mine; x=$("+command+"\n); printf '%s|%s' \"$x\" $ar_dir")...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return string(out)
	}
	if got := find(); got != "|mine" {
		t.Errorf("before it is there, it is found as %q", got)
	}
	_, g := opened(t, s)
	want := filepath.Join(home, ".cache/async-repl/bin", names(t, g.Boot)[0]) + "|mine"
	if got := find(); got != want {
		t.Errorf("it is found as %q, want %q", got, want)
	}
	if _, err := Find(home+"/none", ""); err == nil {
		t.Error("a program that is not here is found there")
	}
}

// Without a home and a PATH, as srun and containers start a command, the user's are used.
func TestBareEnvironment(t *testing.T) {
	t.Parallel()
	cache := t.TempDir()
	p, g := opened(t, Spec{
		Argv:    []string{"env", "-i", "XDG_CACHE_HOME=" + cache},
		Program: writeProgram(t, greets+`env | while read x; do echo "$x"; done`), Workspace: "/",
	})
	if g.Boot != cache+"/async-repl/bin" {
		t.Errorf("the program is in %q", g.Boot)
	}
	got := string(must.Get(io.ReadAll(p))(t))
	home := must.Get(os.UserHomeDir())(t)
	if !strings.Contains(got, "\nHOME="+home+"\n") && !strings.HasPrefix(got, "HOME="+home+"\n") || !strings.Contains(got, "PATH=/") || strings.Contains(got, "ar_") {
		t.Errorf("the environment of the program is %q", got)
	}
}

// Two places that share a home can be entered at once. The program is large enough for the two carryings to
// meet.
func TestTwoCarryAtOnce(t *testing.T) {
	t.Parallel()
	argv, _ := bare(t)
	enterTwice(t, argv)
}

func enterTwice(t *testing.T, argv []string) {
	s := Spec{Argv: argv, Program: large(t, 40), Env: os.Environ()}
	var both sync.WaitGroup
	errs := make([]error, 2)
	dirs := make([]string, 2)
	for i := range errs {
		both.Go(func() { // joined here
			p, g, err := Open(t.Context(), s)
			if errs[i], dirs[i] = err, g.Boot; err == nil {
				checkEcho(t, p, 1000)
				closed(t, p)
			}
		})
	}
	both.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if found := names(t, dirs[0]); dirs[0] != dirs[1] || len(found) != 1 {
		t.Errorf("there are %q in %q", found, dirs)
	} else if !bytes.Equal(must.Get(os.ReadFile(filepath.Join(dirs[0], found[0])))(t), must.Get(os.ReadFile(s.Program))(t)) {
		t.Error("the program there is not the one that was carried")
	}
}

// large returns a program of so many MB.
func large(t testing.TB, size int) string {
	t.Helper()
	path := writeProgram(t, echoes)
	f := must.Get(os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0))(t)
	defer f.Close()
	block := make([]byte, 1<<20)
	for i := range block {
		block[i] = byte(i * i >> 7)
	}
	for range size {
		must.Get(f.Write(block))(t)
	}
	return path
}

func TestGone(t *testing.T) {
	t.Parallel()
	argv, _ := bare(t)
	_, g, err := Open(t.Context(), Spec{Argv: argv, Env: os.Environ(), Program: writeProgram(t, `echo '@async-repl {"gone":true,"machine":"m","boot":"b"}'`)})
	if err != ErrGone || g != (far.Greeting{Machine: "m", Boot: "b"}) {
		t.Errorf("got %+v, %v", g, err)
	}
}

// Each failure says how far Open came, in the words of what refused, and what helps.
func TestFailures(t *testing.T) {
	t.Parallel()
	empty := t.TempDir()
	foreign := make([]byte, 100) // the header of a program for another processor
	copy(foreign, "\x7fELF\x02\x01\x01")
	foreign[18] = 183
	if strings.Contains(string(must.Get(exec.Command("uname", "-m").Output())(t)), "aarch64") {
		foreign[18] = 62
	}
	other := filepath.Join(t.TempDir(), "other")
	must.Do(t, os.WriteFile(other, foreign, 0o700))
	file := writeProgram(t, "")

	for _, test := range []struct {
		name    string
		carrier []string // after env -i …
		spec    Spec
		program string // of a shell
		step    Step
		text    string // in the error
		cure    string // in the error
		final   bool
	}{
		{name: "no such carrier", spec: Spec{Argv: []string{"no-such-carrier"}}, step: Reach, text: "no-such-carrier", cure: "see whether", final: true},
		{name: "no program here", spec: Spec{Program: empty + "/none"}, step: Carry, text: empty + "/none", cure: "binary", final: true},
		{name: "a directory as the program", spec: Spec{Program: empty}, step: Carry, text: "not a file", cure: "binary", final: true},
		{name: "says nothing", carrier: []string{"sh", "-c", "exit 7"}, step: Reach, text: "env ended with exit status 7 and said nothing", cure: "by hand: env"},
		{name: "words of a password without a refusal", carrier: []string{"sh", "-c", "echo password file locked >&2; exit 1"}, step: Reach, text: "password file locked", cure: "by hand: env"},
		{name: "no shell", carrier: []string{"sh", "-c", "exec " + empty + "$0"}, step: Reach, text: "/bin/sh: not found", cure: "must have /bin/sh", final: true},
		{name: "a shell that prints and ends", carrier: []string{"sh", "-c", `printf 'welcome\033[31m\nexpired\n'`}, step: Reach, text: "welcome; expired", cure: "by hand"},
		{name: "sends back what it gets", carrier: []string{"sh", "-c", "head -n 20"}, step: Reach, text: "ar_", cure: "by hand"},
		{name: "prints without end", carrier: []string{"sh", "-c", "yes"}, step: Reach, text: "prints without end: y; y", cure: "print"},
		{name: "a line without end", carrier: []string{"sh", "-c", "yes | tr -d '\\n'"}, step: Reach, text: "prints without end: yyyy", cure: "print"},
		{name: "a terminal", carrier: []string{"sh", "-c", `exec script -qec "$0" /dev/null`}, step: Reach, text: "terminal", cure: "-t", final: true},
		{name: "workspace in a file", spec: Spec{Workspace: file + "/below"}, step: Workspace, text: "Not a directory", cure: `"workspace"`},
		{name: "workspace is a file", spec: Spec{Workspace: file}, step: Workspace, text: file, cure: `"workspace"`},
		{name: "setup fails", spec: Spec{Setup: "echo no module >&2; (exit 3)"}, step: Start, text: "setup: it ended with exit status 3; no module", cure: `"setup"`},
		{name: "setup exits", spec: Spec{Setup: "echo bye; exit 0"}, step: Start, text: "setup: bye", cure: `"setup"`},
		{name: "setup has an error of syntax", spec: Spec{Setup: "if true"}, step: Start, text: "setup: ", cure: `"setup"`},
		{name: "setup prints a greeting", spec: Spec{Setup: `echo '@async-repl {"protocol":1,"start":"x"}'; exit 1`}, step: Start, text: "setup: ", cure: `"setup"`},
		{name: "another processor", spec: Spec{Program: other}, step: Carry, text: "the place is Linux", cure: `"binary"`, final: true},
		{name: "our program fails", program: "echo 'no room' >&2; exit 1", step: Start, text: "no room", cure: "by hand"},
		{name: "our program greets in no JSON", program: "echo '@async-repl hello'", step: Start, text: "can't be read", cure: "see what runs there"},
		{name: "our program greets with a trick", program: `echo '@async-repl {"protocol":1,"start":"s","machine":"a\u001bb"}'`, step: Start, text: `a\x1bb`, cure: "see what runs there"},
		{name: "our program names no start", program: `echo '@async-repl {"protocol":1}'`, step: Start, text: "no start", cure: "see what runs there"},
		{name: "our program has a start of two lines", program: `echo '@async-repl {"protocol":1,"start":"a:b c"}'`, step: Start, text: "no start", cure: "see what runs there"},
		{name: "another protocol", program: `echo '@async-repl {"protocol":9,"start":"s","version":"7.7"}'`, step: Start, text: "of version 7.7, speaks protocol 9", cure: "end that engine", final: true},
		{name: "wants the program without end", carrier: []string{"sh", "-c", "while :; do echo '@async-repl: need'; head -c 3 >/dev/null; done"}, step: Reach, text: "again and again", cure: "see what runs there"},
		{name: "unknown failure", carrier: []string{"sh", "-c", "echo '@async-repl: here'; echo '@async-repl: fail \033[1m'"}, step: Workspace, text: `unknown reason: \x1b[1m`, cure: "see what runs there"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			argv, _ := bare(t, "PATH="+os.Getenv("PATH"))
			s := test.spec
			if s.Argv == nil {
				s.Argv = append(argv, test.carrier...)
			}
			if s.Program == "" {
				s.Program = writeProgram(t, test.program)
			}
			err := refusedBy(t, t.Context(), s)
			if err.Step != test.step || !strings.Contains(err.Text, test.text) || !strings.Contains(err.Cure, test.cure) || err.Final != test.final {
				t.Errorf("got step %d, final %v: %v; want step %d, %q and %q", err.Step, err.Final, err, test.step, test.text, test.cure)
			}
		})
	}
}

// What waits is ended, and what it has said until then is in the error.
func TestWaits(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		carrier string
		setup   string
		program string
		step    Step
		text    string
		cure    string
	}{
		{name: "a login shell", carrier: "echo Password:; READY; exec sleep 1000", step: Reach, text: "nothing came for", cure: "login shell"},
		{name: "a login shell that takes everything", carrier: "echo Password:; READY; while read x; do :; done; sleep 1000", step: Reach, text: "Password:", cure: "login shell"},
		{name: "a carrier that ignores signals", carrier: "trap '' TERM INT HUP PIPE; echo Password: >&2; READY; sleep 1000; sleep 1000", step: Reach, text: "Password:", cure: "login shell"},
		{name: "setup", setup: "echo Password:; READY; sleep 1000", step: Start, text: "setup: nothing came for", cure: `"setup"`},
		{name: "our program", program: "echo Password:; READY; sleep 1000", step: Start, text: "Password:", cure: "by hand"},
		{name: "a carrier that floods", carrier: "READY; yes >&2; :", step: Reach, text: "y; y", cure: "login shell"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			// Nothing announces that Open has read what was printed, so each attempt gives it more time.
			var patience time.Duration
			polltest.Check(t, func() error {
				ready := filepath.Join(t.TempDir(), "ready")
				at := strings.NewReplacer("READY", "echo >"+ready)
				argv, _ := bare(t)
				if test.carrier != "" {
					argv = append(argv, "sh", "-c", at.Replace(test.carrier))
				}
				ctx, cancel := context.WithCancel(t.Context())
				var tired sync.WaitGroup
				tired.Go(func() { // joined here
					polltest.Until(t, "the carrier to wait", func() bool { _, err := os.Stat(ready); return err == nil })
					time.AfterFunc(patience, cancel)
				})
				begun := time.Now()
				err := refusedBy(t, ctx, Spec{Argv: argv, Setup: at.Replace(test.setup), Program: writeProgram(t, at.Replace(test.program))})
				tired.Wait()
				patience = 2*patience + time.Millisecond
				if time.Since(begun) > limit {
					t.Error("the end of the context did not end the wait")
				}
				if err.Step != test.step || !strings.Contains(err.Text, test.text) || !strings.Contains(err.Cure, test.cure) || err.Final {
					return fmt.Errorf("got step %d, final %v: %v; want step %d, %q and %q", err.Step, err.Final, err, test.step, test.text, test.cure)
				}
				return nil
			})
		})
	}
}

// Without an answer the wait ends, but not while the program moves: here it takes longer than the limit.
func TestLimit(t *testing.T) {
	t.Parallel()
	argv, _ := bare(t)
	s := Spec{Argv: append(argv, "sh", "-c", "sleep 1000; :"), Env: os.Environ(), Program: writeProgram(t, "")}
	_, _, err := openWithin(t.Context(), s, 300*time.Millisecond)
	if failed, ok := err.(*Error); !ok || !strings.HasPrefix(failed.Text, "nothing came for ") {
		t.Errorf("the error is %v", err)
	}

	const limit = 3 * time.Second
	s.Argv = append(argv, "sh", "-c", `while dd bs=32k count=1 2>/dev/null; do sleep 0.04; done | "$0"`)
	s.Program = large(t, 3)
	text := strings.Replace(string(must.Get(os.ReadFile(s.Program))(t)), "exec cat", "sleep 3.2; echo x; exec cat", 1)
	must.Do(t, os.WriteFile(s.Program, []byte(text), 0o700))
	begun := time.Now()
	p, _, err := openWithin(t.Context(), s, limit)
	if err != nil {
		t.Fatal(err)
	}
	defer closed(t, p)
	if took := time.Since(begun); took < limit {
		t.Fatalf("the program was carried in %s, which is no test", took)
	}
	// What our program sends after the limit arrives: Open has lifted the deadline.
	if line, err := bufio.NewReader(p).ReadString('\n'); line != "x\n" || err != nil {
		t.Errorf("later it sends %q, %v", line, err)
	}
}

// A login shell that reads a line, as one does that asks to press return, gets an empty one.
func TestLoginShellReadsALine(t *testing.T) {
	t.Parallel()
	argv, _ := bare(t)
	p, _ := opened(t, Spec{Argv: append(argv, "sh", "-c", `echo Press return; read line; echo "got <$line>" >&2; exec "$0"`), Program: writeProgram(t, echoes)})
	checkEcho(t, p, 100)
	closed(t, p)
	if words := p.words.String(); words != "got <>" {
		t.Errorf("the words of the carrier are %q", words)
	}
}

// Close ends what the carrier has started in its group, and what waits for the pipe.
func TestClose(t *testing.T) {
	t.Parallel()
	argv, _ := bare(t)
	carrier := append(argv, "sh", "-c", `sleep 1000 & "$0"; sleep 1000`) // as ssh with a ProxyCommand
	p, _ := opened(t, Spec{Argv: carrier, Program: writeProgram(t, echoes)})
	var waiting sync.WaitGroup
	var read, wrote error
	waiting.Go(func() { _, read = p.Read(make([]byte, 1)) })       // joined here
	waiting.Go(func() { _, wrote = p.Write(make([]byte, 1<<20)) }) // joined here
	waiting.Go(func() { closed(t, p) })                            // joined here
	waiting.Go(func() { closed(t, p) })                            // joined here
	waiting.Wait()
	if wrote == nil && read == nil {
		t.Error("neither reading nor writing has failed")
	}
	if _, err := p.Read(make([]byte, 1<<21)); err == nil {
		t.Error("a closed pipe can be read")
	}
	if _, err := p.Write([]byte("x")); !errors.Is(err, os.ErrClosed) {
		t.Errorf("a closed pipe is written to: %v", err)
	}
}

// The end of our program there is the end of the input, and its last words are kept.
func TestEnd(t *testing.T) {
	t.Parallel()
	argv, _ := bare(t)
	p, _ := opened(t, Spec{Argv: argv, Program: writeProgram(t, greets+"read x; echo \"last $x\"; printf 'Connection\\033[1m reset\\n' >&2")})
	fmt.Fprintln(p, "word")
	line, err := bufio.NewReader(p).ReadString('\n')
	if line != "last word\n" || err != nil {
		t.Errorf("got %q, %v", line, err)
	}
	if n, err := p.Read(make([]byte, 10)); n != 0 || err != io.EOF {
		t.Errorf("at the end: %d, %v", n, err)
	}
	closed(t, p)
	if words := p.words.String(); words != "Connection reset" {
		t.Errorf("its last words are %q", words)
	}
}

func TestDeadlines(t *testing.T) {
	t.Parallel()
	argv, _ := bare(t)
	p, _ := opened(t, Spec{Argv: argv, Program: writeProgram(t, greets+"exec sleep 1000")})
	must.Do(t, p.SetDeadline(time.Now().Add(-time.Second)))
	if _, err := p.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("reading: %v", err)
	}
	if _, err := p.Write(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("writing: %v", err)
	}
	must.Do(t, p.SetDeadline(time.Time{}))
	if _, err := p.Write(make([]byte, 1)); err != nil {
		t.Errorf("writing without a deadline: %v", err)
	}
}

// What our program sends right behind its greeting is not lost, and neither is a program that says much.
func TestNothingIsLostBehindTheGreeting(t *testing.T) {
	t.Parallel()
	argv, _ := bare(t)
	p, _ := opened(t, Spec{Argv: argv, Program: writeProgram(t, greets+"seq 100000; exec cat")})
	want := string(must.Get(exec.Command("seq", "100000").Output())(t))
	got := make([]byte, len(want))
	if _, err := io.ReadFull(p, got); err != nil || string(got) != want {
		t.Errorf("got %d bytes, equal: %v, %v", len(got), string(got) == want, err)
	}
	checkEcho(t, p, 3<<20)
}

// The systems are those of uname.
func TestSystemOf(t *testing.T) {
	self := must.Get(os.Open("/proc/self/exe"))(t)
	defer self.Close()
	head := make([]byte, 64)
	must.Get(io.ReadFull(self, head))(t)
	uname := strings.TrimSpace(string(must.Get(exec.Command("uname", "-sm").Output())(t)))
	if got := strings.ReplaceAll(systemOf(head), `\`, ""); got != uname {
		t.Errorf("this program is for %q, and this system is %q", got, uname)
	}
	for _, head := range []string{"", "\x7fELF", "\xcf\xfa\xed\xfe", "#!/bin/sh\n"} {
		if got := systemOf([]byte(head)); got != "*" {
			t.Errorf("%q is for %q", head, got)
		}
	}
}

// A user of Kubernetes can have the right to make pods, and none to enter them. Only a person can change that.
func TestPodThatCannotBeEntered(t *testing.T) {
	t.Parallel()
	const said = `Error from server (Forbidden): pods "hand-g9nm9" is forbidden: User "nobody" cannot create resource "pods/exec" in API group "" in the namespace "default"`
	s := Spec{Argv: []string{writeProgram(t, "echo '"+said+"' >&2; exit 1\n")}, Program: writeProgram(t, echoes)}
	if err := refusedBy(t, t.Context(), s); err.Step != Reach || !err.Final || !strings.HasPrefix(err.Cure, "give this user of Kubernetes the right to create pods/exec: /") {
		t.Errorf("got step %d, final %v: %v", err.Step, err.Final, err)
	}
}
