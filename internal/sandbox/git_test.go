//go:build linux

package sandbox_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"asyncrepl/internal/test/must"
)

// A planting makes a person's git run a program, if it is not kept from it. It is a script that runs inside,
// in a workspace with a repository. $p is the program and $settings what a config needs to run it.
// A person has run before, if it is not empty.
type planting struct{ name, script, before string }

// kept are plantings in what is protected.
var kept = []planting{
	{"hook", `cp $p .git/hooks/pre-commit; cp $p .git/hooks/post-index-change`, ""},
	{"hooks that are swapped", `mv .git/hooks .git/h; mkdir .git/hooks; cp $p .git/hooks/pre-commit`, ""},
	{"config", `echo "$settings" >>.git/config`, ""},
	{"config that is replaced", `cp .git/config c; echo "$settings" >>c; mv -f c .git/config`, ""},
	{"config by git", `git config core.fsmonitor $p`, ""},
	{"config of a worktree", `echo "$settings" >>.git/config.worktree`, ""},
	{"git directory that is swapped", `mv .git g; cp -r g .git; echo "$settings" >>.git/config`, ""},
	{"git directory elsewhere", `cp -r .git g; echo "$settings" >>g/config; mv .git old && echo gitdir: g >.git`, ""},
	{"hooks of husky", `cp $p .husky/_/pre-commit; cp $p .husky/pre-commit; mv .husky h; mkdir -p .husky/_; cp $p .husky/_/pre-commit`,
		`mkdir -p .husky/_; printf '#!/bin/sh\n' >.husky/_/pre-commit; chmod +x .husky/_/pre-commit; git config core.hooksPath .husky/_`},
	{"config that is included", `echo "$settings" >>shared`, `echo '[a]' >shared; git config include.path ../shared`},
}

// open are plantings that README names. In is where the person's git is run.
var open = []struct {
	planting
	in string
}{
	{planting{"common directory", `mkdir .git/x; cp -r .git/config .git/objects .git/refs .git/x; chmod u+w .git/x/config; echo "$settings" >>.git/x/config; echo x >.git/commondir`, ""}, ""},
	{planting{"submodule", `git init -q sub; cd sub; git commit -q --allow-empty -m s; cd ..; git add sub 2>/dev/null; echo "$settings" >>sub/.git/config`, ""}, ""},
	{planting{"repository in a directory", `mkdir -p sub; cd sub; git init -q; echo "$settings" >>.git/config; echo x >x; git add x`, ""}, "sub"},
	{planting{"bare repository", `mkdir sub; cd sub; git init -q --bare; echo "$settings" >config; printf '[core]\nrepositoryformatversion = 0\nbare = false\nworktree = ..\n' >>config`, ""}, "sub"},
	{planting{"bare repository in place of the other", `mv .git/HEAD .; mkdir objects refs; echo "$settings" >config; printf '[core]\nrepositoryformatversion = 0\nbare = false\nworktree = .\n' >>config`, ""}, ""},
}

// repository makes a world whose workspace has a repository with a change, and a job in it plants something,
// in a sandbox or without one.
func (p planting) repository(t *testing.T, uid int, plain bool) (w *world, ran func() bool) {
	t.Helper()
	w = newWorld(t, uid)
	w.git(t, w.workspace(""), "init", "-q")
	w.write(t, w.workspace("file"), "text")
	must.Do(t, os.MkdirAll(w.workspace(".git/hooks"), 0o755))
	w.own(t)
	w.git(t, w.workspace(""), "add", "file")
	w.git(t, w.workspace(""), "commit", "-qm", "first")
	w.git(t, w.workspace(""), "config", "extensions.worktreeConfig", "true")
	w.git(t, w.workspace(""), "config", "--worktree", "a.b", "c")
	if p.before != "" {
		cmd := exec.Command("sh", "-c", p.before)
		cmd.Dir, cmd.Env = w.workspace(""), append(os.Environ(), "HOME="+w.home(""))
		if uid != os.Getuid() {
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
		}
		must.Do(t, cmd.Run())
	}
	mark := w.path("outside/ran")
	w.write(t, w.workspace("program"), "#!/bin/sh\ntouch "+mark+"\n")
	must.Do(t, os.Chmod(w.workspace("program"), 0o755))
	w.own(t)
	script := `export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b.example GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b.example
p=$PWD/program
settings="[core]
	fsmonitor = $p
	hooksPath = $PWD/hooks
	pager = $p
	sshCommand = $p
[diff]
	external = $p
[uploadpack]
	packObjectsHook = $p
"
mkdir hooks; for h in pre-commit post-checkout post-index-change reference-transaction; do cp $p hooks/$h; done
` + p.script + "\necho more >>file"
	var out strings.Builder
	cmd := w.command(t, launch{Config: w.config(), Plain: plain, Program: []string{"/bin/sh", "-c", script}})
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); strings.Contains(out.String(), "bwrap: ") || strings.Contains(out.String(), "broken: ") {
		t.Fatalf("the sandbox was not started: %v, %s", err, out.String())
	}
	t.Logf("the job: %s", out.String())
	ran = func() bool {
		_, err := os.Lstat(mark)
		os.Remove(mark)
		return err == nil
	}
	ran() // the job can have started it
	return w, ran
}

// outside runs git as a person does, with or without success.
func (w *world) outside(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=a", "-c", "user.email=a@b.example"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+w.home(""), "GIT_CONFIG_NOSYSTEM=1")
	if w.UID != os.Getuid() {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(w.UID), Gid: uint32(w.UID)}}
	}
	out, err := cmd.CombinedOutput()
	t.Logf("git %q: %v\n%s", args, err, out)
}

// What a person's git usually runs is not changed by a job that writes where programs are named.
func TestGitRunsNoProgramOfAJob(t *testing.T) {
	for _, p := range kept {
		t.Run(p.name, func(t *testing.T) {
			users(t, func(t *testing.T, uid int) {
				w, ran := p.repository(t, uid, true)
				w.outside(t, w.workspace(""), "commit", "-qam", "more")
				if !ran() {
					t.Error("nothing runs without a sandbox either")
				}
				w, ran = p.repository(t, uid, false)
				for _, args := range [][]string{{"status"}, {"diff"}, {"add", "file"}, {"commit", "-qam", "more"}, {"checkout", "-q", "-b", "b"}} {
					if w.outside(t, w.workspace(""), args...); ran() {
						t.Errorf("git %q ran a program of the job", args)
					}
				}
				if got := w.git(t, w.workspace(""), "log", "--format=%s", "-1"); got != "more" {
					t.Errorf("the last commit is %q", got)
				}
			})
		})
	}
}

// A job can make a repository that a person's git obeys. A clone of it can be inspected, because upload-pack
// obeys nothing of what it serves (https://git-scm.com/docs/git-upload-pack#_security).
func TestCloneOfWhatAJobHasPlanted(t *testing.T) {
	for _, p := range open {
		t.Run(p.name, func(t *testing.T) {
			users(t, func(t *testing.T, uid int) {
				w, ran := p.repository(t, uid, false)
				if w.outside(t, w.workspace(p.in), "status"); !ran() {
					t.Skip("this git runs nothing")
				}
				if strings.HasPrefix(p.name, "bare") {
					if w.outside(t, w.workspace(p.in), "-c", "safe.bareRepository=explicit", "status"); ran() {
						t.Error("safe.bareRepository is no cure")
					}
				}
				copied := w.path("outside/copy")
				w.outside(t, w.path("outside"), "clone", "-q", "--no-local", w.workspace(""), copied)
				for _, args := range [][]string{{"status"}, {"diff"}, {"log", "-p"}} {
					if w.outside(t, copied, args...); ran() {
						t.Errorf("git %q in a clone ran a program of the job", args)
					}
				}
				if _, err := os.Stat(filepath.Join(copied, "file")); err != nil && p.name != open[len(open)-1].name {
					t.Error(err)
				}
			})
		})
	}
}
