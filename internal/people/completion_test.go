//go:build unix

package people

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"asyncrepl/internal/process/processtest"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/needtest"
)

// Commands, flags and the ids of jobs that a command can be about are completed.
func TestCommandLinesAreCompleted(t *testing.T) {
	w, s := serving(t)
	j := s.asking("read x # the question")
	ended := s.ended("exit 3")
	const noFiles, inOrder = ":4\n", ":36\n"
	line := j.ID() + "\twaiting_input: read x # the question\n"
	for args, want := range map[string]string{
		"ca":                     "cancel\tthe summary of cancel\n" + noFiles,
		"ps --j":                 "--json\tprint JSON\n" + noFiles,
		"wait ":                  line + inOrder,
		"send ":                  line + inOrder,
		"cancel " + j.ID()[:10]:  line + inOrder,
		"cancel " + j.ID() + " ": inOrder,
		"send " + j.ID() + " ":   noFiles,
		"logs ":                  ended.ID() + "\tfailed: exit 3\n" + line + inOrder,
		"logs --view ":           "text\nscreen\nraw\n" + noFiles,
		"completion ":            "bash\nzsh\nfish\n" + noFiles,
	} {
		w.run(append([]string{"__complete"}, strings.Split(args, " ")...)...).expect(t, want, "~", 0)
	}
	w.run("completion", "tcsh").expect(t, "", `async-repl: completion: invalid argument "tcsh" for "async-repl completion": see async-repl completion --help`+"\n", 2)
}

// The scripts are of shells: each reads its own.
func TestScriptsOfCompletionAreRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, shell := range []string{"bash", "zsh", "fish"} {
		t.Run(shell, func(t *testing.T) {
			script := w.run("completion", shell)
			if script.code != 0 || !strings.Contains(script.out, "async-repl") || script.err != "" {
				t.Fatalf("%.200q, %q, exit %d", script.out, script.err, script.code)
			}
			path := needtest.Program(t, shell)
			file := filepath.Join(t.TempDir(), "script")
			must.Do(t, os.WriteFile(file, []byte(script.out), 0o600))
			if out, err := exec.Command(path, "-n", file).CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

// bash completes the id of a job as it does for a person.
func TestBashCompletesJobs(t *testing.T) {
	bash := needtest.Program(t, "bash")
	w, r := remotely(t)
	id := r.start("read x")
	r.asks(id)
	dir := t.TempDir()
	processtest.WriteProgram(t, filepath.Join(dir, "async-repl"), "#!/bin/sh\nexec '"+os.Args[0]+"' "+commandArg+" '"+w.place+"' \"$@\"\n")
	file := filepath.Join(dir, "script")
	must.Do(t, os.WriteFile(file, []byte(w.run("completion", "bash").out), 0o600))
	cmd := exec.Command(bash, "--norc", "-c", `. "$0"; COMP_WORDS=(async-repl send "`+id[:9]+`") COMP_CWORD=2 COMP_LINE="${COMP_WORDS[*]}" COMP_POINT=${#COMP_LINE} COMP_TYPE=9
__start_async-repl; printf '%s' "${COMPREPLY[@]}"`, file)
	cmd.Env = append(os.Environ(), "PATH="+dir+":/usr/bin:/bin")
	out, err := cmd.Output() // compopt complains that no person has pressed Tab
	if err != nil || string(out) != id {
		t.Errorf("%v: %q, want %q", err, out, id)
	}
}
