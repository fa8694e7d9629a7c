//go:build unix

package allocation_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"asyncrepl/internal/place/allocation"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/polltest"
)

// over returns a Run through a program that does what ssh does: it gives its last arguments to a login
// shell. login is the text of that shell, in which "$1" is the command.
func over(t *testing.T, login string) allocation.Run {
	path := filepath.Join(t.TempDir(), "ssh")
	must.Do(t, os.WriteFile(path, []byte("#!/bin/sh\nshift 2\n"+login), 0o700))
	return allocation.Over([]string{path, "-T", "host"})
}

// This is the example of a Run.
func Example() {
	out, err := allocation.Local(context.Background(), []string{"sort", "-r"}, "a\nb\n")
	fmt.Printf("%q %v\n", out, err)
	_, err = allocation.Local(context.Background(), []string{"sh", "-c", "echo 'no \x1b[31mpartition\u202e' >&2; exit 3"}, "")
	fmt.Println(err)
	// Output:
	// "b\na\n" <nil>
	// sh: no partition\u202e
}

// Words and input arrive as they are, here and through a login shell that prints.
func TestRunPassesWordsAndInput(t *testing.T) {
	input := "#!/bin/sh\necho 'x' \"$y\" \\ `z` $(a)\n\ttab\n" + strings.Repeat("long\n", 10_000) + "no end of line"
	words := []string{"a b", "", "'", `"`, `\`, "$HOME", "`id`", "a\nb", "*", "!x", "-n"}
	for name, run := range map[string]allocation.Run{
		"local": allocation.Local, "over": over(t, `exec /bin/sh -c "$*"`), "greeting": over(t, `echo Welcome; exec /bin/sh -c "$*"`),
	} {
		t.Run(name, func(t *testing.T) {
			got := must.Get(run(t.Context(), append([]string{"sh", "-c", `cat; for w; do printf '<%s>' "$w"; done`, "name"}, words...), input))(t)
			if want := input + "<" + strings.Join(words, "><") + ">"; got != want {
				t.Errorf("got %.300q, want %.300q", got, want)
			}
		})
	}
}

// An error has the program, its status and its words, and says whether the other machine was reached.
func TestErrors(t *testing.T) {
	ssh := over(t, `exec /bin/sh -c "$*"`)
	refused := over(t, `echo 'me@host: Permission denied (publickey).' >&2; exit 255`)
	nologin := over(t, `echo 'This account is not available.'; exit 1`)
	silent := over(t, `echo 'Bye.'; exit 0`)
	for _, c := range []struct {
		name string
		run  allocation.Run
		argv []string
		want allocation.Error
	}{
		{"status", allocation.Local, []string{"sh", "-c", "echo one >&2; echo >&2; echo two >&2; exit 4"}, allocation.Error{Program: "sh", Code: 4, Text: "one; two", Reached: true}},
		{"many words", allocation.Local, []string{"sh", "-c", "head -c 8000 /dev/zero | tr '\\0' 'x' | fold -w 100 >&2; echo >&2; echo the cause >&2; exit 4"},
			allocation.Error{Program: "sh", Code: 4, Text: strings.Repeat(strings.Repeat("x", 100)+"; ", 4) + "the cause", Reached: true}},
		{"no words", allocation.Local, []string{"sh", "-c", "exit 4"}, allocation.Error{Program: "sh", Code: 4, Text: "exit status 4", Reached: true}},
		{"signal", allocation.Local, []string{"sh", "-c", "kill -9 $$"}, allocation.Error{Program: "sh", Code: -1, Text: "signal: killed", Reached: true}},
		{"missing", allocation.Local, []string{"no-such-program"}, allocation.Error{Program: "no-such-program", Code: 127, Text: "there is no such program on the PATH", Reached: true}},
		{"status over ssh", ssh, []string{"sh", "-c", "echo one >&2; exit 4"}, allocation.Error{Program: "sh", Code: 4, Text: "one", Reached: true}},
		{"refused", refused, []string{"true"}, allocation.Error{Program: "ssh", Code: 255, Text: "me@host: Permission denied (publickey).", Reached: false}},
		{"no login", nologin, []string{"true"}, allocation.Error{Program: "ssh", Code: 1, Text: "exit status 1", Reached: false}},
		{"another shell", silent, []string{"true"}, allocation.Error{Program: "ssh", Code: 0, Text: "it ran no /bin/sh on the other machine; its login shell printed: Bye.", Reached: false}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := c.run(t.Context(), c.argv, "")
			var e *allocation.Error
			if !errors.As(err, &e) {
				t.Fatalf("got %v", err)
			}
			if e.Program = filepath.Base(e.Program); *e != c.want {
				t.Errorf("got %+v, want %+v", *e, c.want)
			}
		})
	}
	_, err := ssh(t.Context(), []string{"no-such-program"}, "")
	var e *allocation.Error
	if !errors.As(err, &e) || e.Code != 127 || !e.Reached || e.Program != "no-such-program" {
		t.Errorf("a missing program over ssh: %+v", err)
	}
}

// What a hostile or broken program prints is bounded.
func TestOutputIsBounded(t *testing.T) {
	if _, err := allocation.Local(t.Context(), []string{"cat", "/dev/zero"}, ""); err == nil || err.Error() != "cat: it printed more than 16 MiB" {
		t.Errorf("output without end: %v", err)
	}
	_, err := allocation.Local(t.Context(), []string{"sh", "-c", "head -c 100000 /dev/zero | tr '\\0' 'x' >&2; echo end >&2; exit 1"}, "")
	if err == nil || len(err.Error()) > 700 {
		t.Errorf("a long error: %v", err)
	}
}

// A command ends with its context, also a child of it that holds the pipes. A program that has ended
// is not waited for because of what it started.
func TestRunEndsWithItsContext(t *testing.T) {
	pid := filepath.Join(t.TempDir(), "pid")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { // owned by this test; ends with the command
		_, err := allocation.Local(ctx, []string{"sh", "-c", `sleep 600 & echo $! >"$1".new; mv "$1".new "$1"; wait`, "sh", pid}, "")
		done <- err
	}()
	var child int
	polltest.Until(t, "the child", func() bool {
		b, err := os.ReadFile(pid)
		child, _ = strconv.Atoi(strings.TrimSpace(string(b)))
		return err == nil
	})
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	polltest.Until(t, "the end of the child", func() bool { return syscall.Kill(child, 0) != nil })
	if _, err := allocation.Local(ctx, []string{"true"}, ""); !errors.Is(err, context.Canceled) {
		t.Errorf("a start without time: %v", err)
	}

	limited, stop := context.WithTimeout(t.Context(), polltest.Patience)
	defer stop()
	out, err := allocation.Local(limited, []string{"sh", "-c", "sleep 600 & echo $!"}, "")
	if err != nil || limited.Err() != nil {
		t.Fatalf("a program that left another: %v", err)
	}
	must.Do(t, syscall.Kill(must.Get(strconv.Atoi(strings.TrimSpace(out)))(t), syscall.SIGKILL))
}
