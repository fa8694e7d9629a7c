//go:build unix

package kubernetes

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"asyncrepl/internal/place/allocation"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/polltest"
)

// first starts the command that a pod of engine starts first, in a home of its own.
func first(t *testing.T, engine allocation.Engine) (cmd *exec.Cmd, home string, out *bytes.Buffer) {
	t.Helper()
	home = filepath.Join(t.TempDir(), "a home")
	must.Do(t, os.MkdirAll(filepath.Join(home, "bin"), 0o700))
	out = new(bytes.Buffer)
	cmd = exec.Command("/bin/sh", "-c", script(engine))
	cmd.Env = []string{"HOME=" + home, "PATH=" + filepath.Join(home, "path") + ":/usr/bin:/bin"}
	cmd.Stdout, cmd.Stderr = out, out
	return cmd, home, out
}

// program puts a shell script at path, complete at once, as a link does.
func program(t *testing.T, path, text string) {
	t.Helper()
	must.Do(t, os.MkdirAll(filepath.Dir(path), 0o700))
	must.Do(t, os.WriteFile(path+".new", []byte("#!/bin/sh\n"+text+"\n"), 0o700))
	must.Do(t, os.Rename(path+".new", path))
}

// finds prints the path of a program once it is there.
const finds = `[ -x "$HOME/bin/it's here" ] && echo "$HOME/bin/it's here"`

// The engine is the pod's first process, in its workspace. It gets its arguments as they are, and its setup
// before.
func TestFirstCommandBecomesTheEngine(t *testing.T) {
	t.Parallel()
	workspace := filepath.Join(t.TempDir(), "a new", "work space")
	cmd, home, out := first(t, allocation.Engine{Workspace: workspace, Setup: "export SETUP=done; set -eu; read SETUP && export SETUP || SETUP=done", Find: `: $NO_SUCH_VARIABLE; ` + finds,
		Args: []string{"placed", `{"key": "$HOME 'x'"}`, ""}, Idle: time.Minute})
	cmd.Stdin = strings.NewReader("the input of a container\n") // setup gets none of it
	must.Do(t, cmd.Start())
	program(t, filepath.Join(home, "bin", "it's here"), `echo "$$ $SETUP $PWD"; for a; do echo "<$a>"; done`)
	must.Do(t, cmd.Wait())
	want := strconv.Itoa(cmd.Process.Pid) + " done " + workspace + "\n<placed>\n<{\"key\": \"$HOME 'x'\"}>\n<>\n"
	if out.String() != want {
		t.Errorf("the engine printed %q, not %q", out, want)
	}
}

// A pod whose setup fails does not become an engine. It waits for a link to try the same, and ends as its
// setup has.
func TestFirstCommandWaitsIfItsSetupFails(t *testing.T) {
	t.Parallel()
	for _, engine := range []allocation.Engine{{Workspace: "/", Setup: "sh -c 'exit 7'"}, {Workspace: "/dev/null/x"}} {
		engine.Find, engine.Idle = "echo /bin/echo", time.Second
		cmd, _, out := first(t, engine)
		err := cmd.Run()
		if want := 7; engine.Setup != "" && cmd.ProcessState.ExitCode() != want || err == nil || strings.Contains(out.String(), "placed") {
			t.Errorf("%+v: %v, %q", engine, err, out)
		}
	}
}

func TestFirstCommandEndsAfterIdle(t *testing.T) {
	t.Parallel()
	cmd, _, out := first(t, allocation.Engine{Workspace: "/", Find: finds, Idle: 2 * time.Second})
	begin := time.Now()
	must.Do(t, cmd.Run())
	if took := time.Since(begin); took < time.Second || out.Len() > 0 {
		t.Errorf("it ended after %v and printed %q", took, out)
	}
}

// Without its trap, a shell that is the first process of a container would not end by SIGTERM.
func TestFirstCommandEndsBySIGTERM(t *testing.T) {
	t.Parallel()
	cmd, home, out := first(t, allocation.Engine{Workspace: "/", Setup: `: >"$HOME/set"`, Find: finds, Idle: time.Hour})
	must.Do(t, cmd.Start())
	polltest.Until(t, "the setup", func() bool { _, err := os.Stat(filepath.Join(home, "set")); return err == nil })
	must.Do(t, cmd.Process.Signal(syscall.SIGTERM))
	if cmd.Wait(); cmd.ProcessState.ExitCode() != 143 {
		t.Errorf("it ended with %v, not by its own trap: %s", cmd.ProcessState, out)
	}
}

// The kubelet replaces $(NAME) in a command, and takes $$ for $. No other $ means anything to it.
// https://github.com/kubernetes/kubernetes/blob/v1.31.4/third_party/forked/golang/expansion/expand.go
func TestKubeletGivesTheScriptBack(t *testing.T) {
	script := script(allocation.Engine{Workspace: "$W", Setup: "a=$(b)$$", Find: finds, Args: []string{"$$", "$(HOME)", "$"}, Idle: time.Second})
	command := made(t, ordinary, script)["spec"].(map[string]any)["containers"].([]any)[0].(map[string]any)["command"].([]any)[2].(string)
	var got strings.Builder
	for i := 0; i < len(command); i++ {
		if command[i] == '$' {
			if i++; i == len(command) || command[i] != '$' {
				t.Fatalf("a $ stands alone in %q", command)
			}
		}
		got.WriteByte(command[i])
	}
	if got.String() != script {
		t.Errorf("the kubelet makes %q of %q", got.String(), script)
	}
}
