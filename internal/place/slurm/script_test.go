package slurm

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"asyncrepl/internal/place/allocation"
	"asyncrepl/internal/place/carry"
	"asyncrepl/internal/test/must"
)

// The batch script goes to the workspace, runs setup and becomes the program, once it is there.
func TestScript(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	must.Do(t, os.WriteFile(program, []byte("#!/bin/sh\npwd\nprintf '<%s>' \"$FROM_SETUP\" \"${SLURM_EXPORT_ENV-unset}\" \"$HOME\" \"$@\"\nexit 5\n"), 0o700))
	// A sleep that can be counted.
	must.Do(t, os.Mkdir(filepath.Join(dir, "bin"), 0o700))
	must.Do(t, os.WriteFile(filepath.Join(dir, "bin", "sleep"), []byte("#!/bin/sh\necho >>\"$WAITED\"\nexec /bin/sleep 0.1\n"), 0o700))
	find := "echo " + carry.Quote(program)
	workspace := filepath.Join(dir, "it's -a", `"new" $one`)
	for _, c := range []struct {
		name, variables string
		engine          allocation.Engine
		status          int
		out             string
		waits           bool
	}{
		{"runs", "HOME=/home/x", allocation.Engine{Workspace: workspace, Setup: "FROM_SETUP='a b'\nexport FROM_SETUP", Find: find, Args: []string{"it's", "", "$(id)"}, Idle: time.Minute}, 5,
			workspace + "\n<a b><unset></home/x><it's><><$(id)>", false},
		{"setup that changes the shell", "HOME=/home/x", allocation.Engine{Workspace: workspace, Setup: "set -euf; IFS=/; cat", Find: find, Idle: time.Minute}, 5,
			workspace + "\n<><unset></home/x>", false},
		{"another temporary directory, and no srun", "HOME=/home/x TMPDIR=/home/x/tmp", allocation.Engine{Workspace: workspace, Setup: "FROM_SETUP=$TMPDIR; export FROM_SETUP", Find: find, Idle: time.Minute}, 5,
			workspace + "\n</tmp><unset></home/x>", false},
		{"no program", "X=", allocation.Engine{Workspace: workspace, Find: "true", Idle: 2 * time.Second}, 0, "", true},
		{"a program that can't run", "X=", allocation.Engine{Workspace: workspace, Find: "echo /etc/passwd", Idle: 2 * time.Second}, 0, "", true},
		{"setup that fails", "X=", allocation.Engine{Workspace: workspace, Setup: "(exit 7)", Find: find, Idle: 2 * time.Second}, 7, "", true},
		{"a workspace that can't be made", "X=", allocation.Engine{Workspace: "/dev/null/x", Find: find, Idle: 2 * time.Second}, 1, "", true},
		{"started again", "SLURM_RESTART_COUNT=1", allocation.Engine{Workspace: workspace, Find: find, Idle: time.Hour}, 1, "", false},
		{"started for the first time", "SLURM_RESTART_COUNT=0", allocation.Engine{Workspace: workspace, Find: "true", Idle: 2 * time.Second}, 0, "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command("/bin/sh")
			cmd.Stdin = strings.NewReader(script(c.engine))
			waited := filepath.Join(t.TempDir(), "waited")
			cmd.Env = append(strings.Fields(c.variables), "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"), "WAITED="+waited, "SLURM_EXPORT_ENV=NONE")
			out, err := cmd.Output()
			status := 0
			var exit *exec.ExitError
			if errors.As(err, &exit) {
				status = exit.ExitCode()
			} else {
				must.Do(t, err)
			}
			if _, err := os.Stat(waited); (err == nil) != c.waits {
				t.Errorf("it waited for a link: %v", err == nil)
			}
			if status != c.status || string(out) != c.out {
				t.Errorf("exit status %d, output %q, want %d, %q", status, out, c.status, c.out)
			}
		})
	}
}
