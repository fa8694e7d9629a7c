//go:build linux

package sandbox_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/sandbox"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/needtest"
	"asyncrepl/internal/test/polltest"
)

// prints fails the test if a script inside does not print what is wanted.
func (w *world) prints(t *testing.T, c sandbox.Config, script, want string) {
	t.Helper()
	out, err := w.shell(t, c, script)
	if err != nil || out != want {
		t.Errorf("%s\nprinted %q (%v), want %q", script, out, err, want)
	}
}

// absent fails the test if there is something at a path.
func absent(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Lstat(path); err == nil {
		t.Errorf("%s is there", path)
	}
}

func TestWhatIsRead(t *testing.T) {
	users(t, func(t *testing.T, uid int) {
		w := newWorld(t, uid)
		w.write(t, w.workspace("a b\nc"), "blanks")
		w.write(t, w.home(".local/bin/tool"), "tool")
		w.write(t, w.home(".gitconfig"), "git")
		w.write(t, w.home(".config/git/config"), "more")
		w.write(t, w.path("tools/pyenv/x"), "pyenv")
		must.Do(t, os.Symlink(w.path("tools/pyenv"), w.home(".pyenv")))
		w.write(t, w.path("other/lib"), "lib")
		w.own(t)
		c := w.config()
		c.Read = []string{w.path("other")}
		w.prints(t, c, `cat 'a b
c' ~/.local/bin/tool ~/.gitconfig ~/.config/git/config ~/.pyenv/x ../../other/lib; id -u; ls -A /home /run /dev/shm /mnt /srv 2>/dev/null; true`,
			fmt.Sprintf("blankstoolgitmorepyenvlib%d\n/dev/shm:\n\n/run:", uid))
		w.prints(t, c, "for f in /x ~/.local/bin/tool ../../other/lib /etc/x /usr/x /sys/x; do echo x 2>/dev/null >$f && echo $f; done; ls -A ~", ".cache\n.config\n.gitconfig\n.local\n.pyenv\nwork")
	})
}

func TestWhatIsKept(t *testing.T) {
	users(t, func(t *testing.T, uid int) {
		w := newWorld(t, uid)
		c := w.config()
		c.Write = []string{w.path("other")}
		w.prints(t, c, "for f in made ../../other/made ~/made ~/.cache/made /tmp/made /dev/shm/made /run/made "+w.path("state/sandbox", c.Identity, "state/made")+"; do echo $f >$f || exit 1; done; cat /var/tmp/made", "/tmp/made")
		for _, path := range []string{w.workspace("made"), w.path("other/made"), w.path("state/sandbox", c.Identity, "state/made")} {
			if _, err := os.Stat(path); err != nil {
				t.Error(err)
			}
		}
		for _, path := range []string{w.home("made"), w.home(".cache"), "/tmp/made", "/dev/shm/made", "/run/made"} {
			absent(t, path)
		}
		w.prints(t, c, "cat ~/.cache/made; ls /tmp ~", w.home(".cache/made")+"\n/tmp:\n"+filepath.Base(w.Dir)+"\n"+filepath.Base(filepath.Dir(self))+"\n\n"+w.home("")+":\nwork")
		c.Identity = "fedcba9876543210"
		w.prints(t, c, "ls ~/.cache", "")
	})
}

// What is made beside the workspace would be lost with the server, as a worktree of git with days of work. So
// nothing can be made there, unless it is the home directory itself, which programs write to.
func TestNothingIsMadeBesideTheWorkspace(t *testing.T) {
	users(t, func(t *testing.T, uid int) {
		w := newWorld(t, uid)
		app, out, read := w.home("projects/app"), w.home("data/out"), w.home("projects/lib")
		for _, dir := range []string{app, out, read} {
			w.write(t, filepath.Join(dir, "file"), "text")
		}
		w.own(t)
		w.git(t, app, "init", "-q")
		w.git(t, app, "commit", "-q", "--allow-empty", "-m", "first")
		c := w.config()
		c.Workspace, c.Write, c.Read = app, []string{out}, []string{read}
		w.prints(t, c, `for d in .. ../lib ~/data; do mkdir $d/new 2>&1 | grep -o 'Read-only.*'; done
			git worktree add -q ../fix 2>&1 | grep -o 'Read-only.*'; git worktree list | wc -l
			echo x >~/made && echo x >made && echo x >~/data/out/made && cat ../lib/file; ls ~/projects ~/data`,
			"Read-only file system\nRead-only file system\nRead-only file system\nRead-only file system\n1\ntext"+
				w.home("data")+":\nout\n\n"+w.home("projects")+":\napp\nlib")
		c.Write = []string{w.home("projects")}
		c.Workspace = w.home("projects/group/app")
		w.write(t, w.home("projects/group/other/file"), "text")
		w.write(t, w.home("projects/group/app/file"), "text")
		w.own(t)
		w.prints(t, c, "mkdir ../made && ls .. ../..", "..:\napp\nmade\nother\n\n../..:\napp\ngroup\nlib")
	})
}

// A home directory and a workspace that are reached through links have the same paths inside.
func TestPathsWithLinks(t *testing.T) {
	w := newWorld(t, os.Getuid())
	w.write(t, w.workspace("file"), "text")
	must.Do(t, os.Symlink(w.home(""), w.path("home-link")))
	must.Do(t, os.Symlink(w.workspace(""), w.path("link")))
	c := w.config()
	c.Home, c.Workspace = w.path("home-link"), w.path("link")
	w.prints(t, c, fmt.Sprintf("cat %s/file %s/work/file %s/work/file; ls -A %s", c.Workspace, c.Home, w.home(""), w.home("")), "texttexttext.cache\nwork")
}

func TestOnlyOptionsOfOldBubblewrap(t *testing.T) {
	known := strings.Fields(`--bind --cap-drop --chdir --dev --die-with-parent --proc --remount-ro --ro-bind --seccomp --symlink
		--tmpfs --unshare-cgroup-try --unshare-ipc --unshare-net --unshare-pid --unshare-user --unshare-uts`)
	w := newWorld(t, os.Getuid())
	obeyedFiles(t, w)
	box := must.Get(sandbox.New(w.config()))(t)
	defer box.Close()
	args := box.Args("/", 3, "program", "--perms")
	end := slices.Index(args, "--")
	if got, want := args[end+1:], []string{"program", "--perms"}; !slices.Equal(got, want) {
		t.Errorf("the program is %q, want %q", got, want)
	}
	for _, a := range args[:end] {
		if strings.HasPrefix(a, "--") && !slices.Contains(known, a) {
			t.Errorf("bubblewrap 0.4.0 has no option %s", a)
		}
	}
}

// git runs git outside as the user of the world.
func (w *world) git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	needtest.Program(t, "git")
	cmd := exec.Command("git", append([]string{"-C", dir, "-c", "user.name=a", "-c", "user.email=a@b.example", "-c", "protocol.file.allow=always"}, args...)...)
	cmd.Env = append(os.Environ(), "HOME="+w.home(""), "GIT_CONFIG_NOSYSTEM=1")
	if w.UID != os.Getuid() {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(w.UID), Gid: uint32(w.UID)}}
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %q: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// commits is what git does in a workspace, inside.
const commits = `set -e; echo x >file; git add file; git -c user.name=a -c user.email=a@b.example commit -qm made; git status --porcelain; git log --format=%s -1`

func TestGitWorks(t *testing.T) {
	users(t, func(t *testing.T, uid int) {
		w := newWorld(t, uid)
		w.git(t, w.workspace(""), "init", "-q")
		w.git(t, w.workspace(""), "commit", "-q", "--allow-empty", "-m", "first")
		w.git(t, w.workspace(""), "clone", "-q", "--bare", ".", w.workspace(".git/up"))
		w.git(t, w.workspace(""), "remote", "add", "up", w.workspace(".git/up"))
		w.git(t, w.workspace(""), "fetch", "-q", "up")
		w.prints(t, w.config(), commits+"; git gc -q; git checkout -q -b b; git stash list; git fetch -q up; git worktree add -q tree -b c", "made")
		w.prints(t, w.config(), `for c in 'config a.b c' 'remote add x y' 'branch -m c d'; do git $c 2>/dev/null || echo $c; done
			git push -u up HEAD:refs/heads/d >/dev/null 2>&1 && git checkout -q -b e up/d 2>/dev/null && git branch --show-current`, "config a.b c\nremote add x y\nbranch -m c d\ne")
	})
}

// linked makes a repository beside a world's home with a worktree in the workspace.
func (w *world) linked(t *testing.T) {
	t.Helper()
	w.git(t, w.path("other"), "init", "-q")
	w.git(t, w.path("other"), "commit", "-q", "--allow-empty", "-m", "first")
	must.Do(t, os.Remove(w.workspace("")))
	w.git(t, w.path("other"), "worktree", "add", "-q", w.workspace(""))
	w.git(t, w.path("other"), "worktree", "add", "-q", w.path("outside/tree"))
}

func TestWorktree(t *testing.T) {
	users(t, func(t *testing.T, uid int) {
		w := newWorld(t, uid)
		w.linked(t)
		c := w.config()
		w.prints(t, c, commits, "made")
		w.prints(t, c, `cd ../../other/.git; for f in config hooks/x commondir hooks/pre-commit.sample worktrees/work/commondir worktrees/work/gitdir worktrees/tree/HEAD worktrees/x `+w.workspace(".git")+`; do
			echo x 2>/dev/null >>$f && echo $f; mv $f $f.moved 2>/dev/null && echo moved $f; done; mv worktrees/work worktrees/y 2>/dev/null; mv worktrees y 2>/dev/null; rm -f commondir commondir.moved; ls ../`,
			"commondir\nmoved commondir")
	})
}

// Jobs use the worktrees in the workspace that they have made earlier. Those of the person, elsewhere, are
// protected.
func TestWorktreesOfTheWorkspace(t *testing.T) {
	users(t, func(t *testing.T, uid int) {
		w := newWorld(t, uid)
		w.git(t, w.workspace(""), "init", "-q")
		w.git(t, w.workspace(""), "commit", "-q", "--allow-empty", "-m", "first")
		for _, dir := range []string{w.workspace("in"), w.workspace("gone"), w.path("outside/tree")} {
			w.git(t, w.workspace(""), "worktree", "add", "-q", dir)
		}
		must.Do(t, os.RemoveAll(w.workspace("gone")))
		c := w.config()
		w.prints(t, c, "(cd in; "+commits+") && git worktree add -q more -b more && git worktree remove more && git worktree remove in && rm -r .git/worktrees/gone && ls .git/worktrees", "made\ntree")
		w.prints(t, c, `cd .git/worktrees; for f in tree/HEAD tree/gitdir tree/commondir tree/x; do
			echo x 2>/dev/null >>$f && echo $f; mv $f $f.moved 2>/dev/null && echo moved $f; done; mv tree y 2>/dev/null; mv ../worktrees ../y 2>/dev/null; ls`, "tree")
		for i := range 200 { // each could be one more mount
			w.write(t, w.workspace(fmt.Sprintf(".git/worktrees/%d/gitdir", i)), w.path("outside", strconv.Itoa(i), ".git"))
		}
		w.own(t)
		w.prints(t, c, "cd .git/worktrees; for f in 0 199 tree; do echo x 2>/dev/null >>$f/gitdir && echo $f; done; mv 0 x 2>/dev/null || ls | wc -l", "201")
	})
}

func TestSubmodule(t *testing.T) {
	users(t, func(t *testing.T, uid int) {
		w := newWorld(t, uid)
		for _, d := range []string{"source", "super"} {
			must.Do(t, os.MkdirAll(w.path(d), 0o755))
			w.own(t)
			w.git(t, w.path(d), "init", "-q")
			w.git(t, w.path(d), "commit", "-q", "--allow-empty", "-m", "first")
		}
		w.git(t, w.path("super"), "submodule", "--quiet", "add", w.path("source"), "a/sub")
		c := w.config()
		c.Workspace = w.path("super/a/sub")
		run := func(script, want string) {
			t.Helper()
			var out bytes.Buffer
			cmd := w.command(t, launch{Config: c, Dir: c.Workspace, Program: []string{"/bin/sh", "-c", script}})
			cmd.Stdout, cmd.Stderr = &out, &out
			if err := cmd.Run(); err != nil || strings.TrimSpace(out.String()) != want {
				t.Errorf("%s\nprinted %q (%v), want %q", script, out.String(), err, want)
			}
		}
		run(commits, "made")
		run("cd ../../.git/modules/a/sub; for f in config hooks/x; do echo x 2>/dev/null >>$f && echo $f; done; mv hooks h 2>/dev/null; ls ../../..", "modules")
		// The same from the repository above, of which the submodule is a part.
		c.Workspace = w.path("super")
		run("cd .git/modules; for f in a/sub/config a/sub/hooks/x; do echo x 2>/dev/null >>$f && echo $f; done; mv a b 2>/dev/null; mv a/sub a/b 2>/dev/null; ls . a", ".:\na\n\na:\nsub")
	})
}

// The objects of a workspace can be in a bare repository in it, beside its worktrees.
func TestBareRepositoryInTheWorkspace(t *testing.T) {
	users(t, func(t *testing.T, uid int) {
		w := newWorld(t, uid)
		w.git(t, w.workspace(""), "init", "-q", "--bare", ".bare")
		w.write(t, w.workspace(".git"), "gitdir: ./.bare\n")
		w.own(t)
		w.prints(t, w.config(), "for f in .git .bare/config .bare/hooks/x; do echo x 2>/dev/null >>$f && echo $f; done; mv .bare b 2>/dev/null || echo x >.bare/description; git log 2>&1 | head -c 5", "fatal")
	})
}

// A user of the system can have a directory of programs as its home.
func TestHomesOfTheSystem(t *testing.T) {
	w := newWorld(t, os.Getuid())
	for _, home := range []string{"/", "/usr/sbin", "/bin", "/etc", "/tmp", "/proc", "/none/there", ""} {
		c := w.config()
		c.Home = home
		w.prints(t, c, "test -e /usr/sbin/chroot && test -e /bin/sh && test -e /etc/passwd && echo here", "here")
	}
}

// A job can write a file .git that names any directory, and what is in its own git directory.
func TestGitFileOfAJob(t *testing.T) {
	users(t, func(t *testing.T, uid int) {
		w := newWorld(t, uid)
		w.write(t, w.home(".ssh/id_ed25519"), secret)
		w.write(t, w.home(".ssh/config"), "")
		w.own(t)
		w.linked(t)
		must.Do(t, os.MkdirAll(w.home("mine"), 0o755))
		w.own(t)
		w.git(t, w.home("mine"), "init", "-q")
		mount := must.Get(os.ReadFile(w.workspace(".git")))(t)
		for _, to := range []string{w.home(".ssh"), "../.ssh", w.home(""), "/", "/etc", w.home("mine/.git"), w.path("other/.git"), w.path("other/.git/worktrees/tree"), w.path("state"), "", "x\x00y", strings.Repeat("../", 4000)} {
			must.Do(t, os.WriteFile(w.workspace(".git"), []byte("gitdir: "+to+"\n"), 0o644))
			w.prints(t, w.config(), "ls -A ~ ~/.ssh ~/mine ../../other ../../outside 2>/dev/null; true", w.home("")+":\n.cache\nwork")
		}
		must.Do(t, os.WriteFile(w.workspace(".git"), mount, 0o644))
		for _, to := range []string{w.home(".ssh"), w.home("mine/.git"), ".", "/"} {
			must.Do(t, os.WriteFile(w.path("other/.git/worktrees/work/commondir"), []byte(to+"\n"), 0o644))
			w.prints(t, w.config(), "ls -A ~ ~/.ssh ~/mine ../../other ../../outside 2>/dev/null; true", w.home("")+":\n.cache\nwork")
		}
	})
}

// What a job can put in the place of a protected file is not followed by the next sandbox.
func TestLinkInPlaceOfAProtectedFile(t *testing.T) {
	users(t, func(t *testing.T, uid int) {
		w := newWorld(t, uid)
		w.write(t, w.home(".ssh/id_ed25519"), secret)
		must.Do(t, os.MkdirAll(w.workspace(".git"), 0o755))
		for _, name := range []string{".claude", ".envrc", ".git/hooks", ".git/config"} {
			must.Do(t, os.Symlink(w.home(".ssh"), w.workspace(name)))
		}
		must.Do(t, unix.Mkfifo(w.workspace(".mcp.json"), 0o600))
		w.own(t)
		box := must.Get(sandbox.New(w.config()))(t)
		box.Close()
		open := slices.Sorted(slices.Values(box.Open))
		if want := []string{w.workspace(".claude"), w.workspace(".envrc"), w.workspace(".git/config"), w.workspace(".git/hooks"), w.workspace(".mcp.json")}; !slices.Equal(open, want) {
			t.Errorf("open are %q, want %q", open, want)
		}
		must.Do(t, os.RemoveAll(w.path("state/sandbox")))
		w.own(t)
		w.prints(t, w.config(), "cat .claude/id_ed25519 .git/hooks/id_ed25519 2>/dev/null; ls -A ~", ".cache\nwork")
	})
}

// conversation starts a program inside that answers lines.
func (w *world) conversation(t *testing.T, c sandbox.Config) (say func(line string) string, kill func()) {
	t.Helper()
	return w.talk(t, launch{Config: c})
}

func (w *world) talk(t *testing.T, l launch) (say func(line string) string, kill func()) {
	t.Helper()
	l.Program = []string{"/bin/sh", "-c", "while read l; do eval \"$l\"; echo .; done"}
	cmd := w.command(t, l)
	in, out := must.Get(cmd.StdinPipe())(t), must.Get(cmd.StdoutPipe())(t)
	must.Do(t, cmd.Start())
	t.Cleanup(func() { in.Close(); cmd.Process.Kill(); cmd.Wait() })
	lines := bufio.NewScanner(out)
	return func(line string) string {
		t.Helper()
		must.Get(io.WriteString(in, line+"\n"))(t)
		var answer []string
		for lines.Scan() && lines.Text() != "." {
			answer = append(answer, lines.Text())
		}
		return strings.Join(answer, "\n")
	}, func() { cmd.Process.Kill(); cmd.Wait() }
}

func TestReplacedFileBreaksItsSeal(t *testing.T) {
	w := newWorld(t, os.Getuid())
	obeyedFiles(t, w)
	box := must.Get(sandbox.New(w.config()))(t)
	box.Close()
	if !slices.ContainsFunc(box.Seals, func(s sandbox.Seal) bool { return s.Path == w.workspace(".git/config") && s.ReadOnly }) {
		t.Fatalf("no seal in %v", box.Seals)
	}
	say, _ := w.conversation(t, w.config())
	check := self + " part-seals '" + string(must.Get(json.Marshal(box.Seals))(t)) + "' /bin/echo whole 2>&1"
	if got := say(check); got != "whole" {
		t.Errorf("at the start: %q", got)
	}
	w.write(t, w.workspace("next"), "new")
	must.Do(t, os.Rename(w.workspace("next"), w.workspace(".git/config")))
	if got, want := say(check), fmt.Sprintf("broken: %q", []string{w.workspace(".git/config")}); got != want {
		t.Errorf("after a replacement: %q, want %q", got, want)
	}
}

// What hides a secret of the system is dropped, too, when passwd replaces the file.
func TestReplacedSecretBreaksItsSeal(t *testing.T) {
	users(t, func(t *testing.T, uid int) {
		w := newWorld(t, uid)
		files, dir := w.path("etc/shadow"), w.path("etc/private")
		w.write(t, files, secret)
		w.write(t, filepath.Join(dir, "key"), secret)
		w.write(t, w.path("next/file"), secret)
		w.write(t, w.path("next/dir/key"), secret)
		w.own(t)
		for path, mode := range map[string]os.FileMode{files: 0o600, w.path("next/file"): 0o600, dir: 0o700, w.path("next/dir"): 0o700} {
			must.Do(t, os.Chmod(path, mode))
		}
		say, _ := w.talk(t, launch{Config: w.config(), Etc: w.path("etc")})
		check := self + ` part-seals "$SEALS" /bin/echo whole 2>&1`
		if got := say("cat " + files + " " + dir + "/key 2>/dev/null; " + check); got != "whole" {
			t.Errorf("at the start: %q", got)
		}
		must.Do(t, os.Remove(files))
		if got := say(check); got != "whole" {
			t.Errorf("without the file: %q", got)
		}
		must.Do(t, os.Rename(w.path("next/file"), files))
		if got, want := say(check), fmt.Sprintf("broken: %q", []string{files}); got != want {
			t.Errorf("after a replacement: %q, want %q", got, want)
		}
		must.Do(t, os.Rename(dir, w.path("next/was")))
		must.Do(t, os.Rename(w.path("next/dir"), dir))
		if got, want := say(check), fmt.Sprintf("broken: %q", []string{dir, files}); got != want {
			t.Errorf("after a replacement of a directory: %q, want %q", got, want)
		}
		const cure = " can be read now: a program outside replaced it; restart the server to protect it again"
		if got, want := say(self+` part-lines "$SEALS"; echo`), dir+cure+"\n"+files+cure; got != want {
			t.Errorf("it says %q, want %q", got, want)
		}
		must.Do(t, os.Remove(files))
		if got, want := say(self+` part-lines "$SEALS"; echo`), dir+cure; got != want {
			t.Errorf("of a secret that is gone it says %q, want %q", got, want)
		}
	})
}

// Each file that a program outside replaces or removes is named once, with what jobs can do to it now. What jobs
// write, and a directory that a job closes, changes nothing.
func TestUnprotectedFilesAreNamed(t *testing.T) {
	users(t, func(t *testing.T, uid int) {
		w := newWorld(t, uid)
		obeyedFiles(t, w)
		w.write(t, w.path("other/.claude"), "")
		w.own(t)
		c := w.config()
		c.Write = []string{w.path("other")}
		say, _ := w.conversation(t, c)
		check := self + ` part-lines "$SEALS" 2>&1; echo`
		says := func(what, before string, want ...string) {
			t.Helper()
			if got := strings.TrimSpace(say(before + check)); got != strings.Join(want, "\n") {
				t.Errorf("%s: %q, want %q", what, got, want)
			}
		}
		const cure = "; restart the server to protect it again"
		says("at the start", "")
		says("what jobs write", "echo x >file; mv file other; mkdir -p .git/objects/x; rm -rf ../../other/.claude; ")
		says("a directory that a job closes", "chmod 0 .git; ")
		say("chmod 755 .git")
		w.write(t, w.workspace("next"), "new")
		must.Do(t, os.Rename(w.workspace("next"), w.workspace(".envrc")))
		envrc := w.workspace(".envrc") + " can be written now: a program outside replaced it" + cure
		says("a file replaced", "", envrc)
		must.Do(t, os.Symlink("/usr", w.workspace("link")))
		must.Do(t, os.Rename(w.workspace("link"), w.workspace(".envrc")))
		says("a link in its place", "", envrc)
		must.Do(t, os.Rename(w.workspace(".git"), w.workspace("git.old")))
		removed := []string{envrc}
		for _, name := range []string{".git/config", ".git/hooks", ".git/modules/a/b/config", ".git/worktrees/t"} {
			removed = append(removed, w.workspace(name)+" can be written now: a program outside removed it"+cure)
		}
		says("a directory above moved away", "", removed...)
	})
}

// A job of another sandbox can swap what was checked before bubblewrap mounts it.
func TestSwapBetweenCheckAndMount(t *testing.T) {
	w := newWorld(t, os.Getuid())
	obeyedFiles(t, w)
	w.write(t, w.home(".ssh/id_ed25519"), secret)
	box := must.Get(sandbox.New(w.config()))(t)
	defer box.Close()
	must.Do(t, os.Rename(w.workspace(".claude"), w.workspace("was")))
	must.Do(t, os.Mkdir(w.workspace(".claude"), 0o755)) // it stands for a link that is swapped twice
	filter := must.Get(sandbox.Filter())(t)
	r, wr := must.Get2(os.Pipe())(t)
	defer r.Close()
	must.Get(wr.Write(filter))(t)
	wr.Close()
	cmd := exec.Command("bwrap", box.Args("/", 3, self, "part-seals", string(must.Get(json.Marshal(box.Seals))(t)), "/bin/echo", "started")...)
	cmd.ExtraFiles = []*os.File{r}
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), fmt.Sprintf("broken: %q", []string{w.workspace(".claude")})) {
		t.Errorf("got %v, %s", err, out)
	}
}

func TestNextStartRemovesWhatAKilledServerLeft(t *testing.T) {
	users(t, func(t *testing.T, uid int) {
		w := newWorld(t, uid)
		w.write(t, w.path("outside/kept"), "kept")
		w.own(t)
		c := w.config()
		say, kill := w.conversation(t, c)
		if got := say("mkdir -p /tmp/a/b && touch /tmp/a/b/c && ln -s " + w.path("outside") + " /tmp/a/link && chmod 0 /tmp/a/b /tmp/a; ls /tmp | grep ^a; chmod 0 /tmp ~/.cache"); got != "a" {
			t.Fatalf("got %q", got)
		}
		other, _ := w.conversation(t, c)
		if got := other("touch /tmp/second"); got != "" {
			t.Fatalf("got %q", got)
		}
		temps := func() []string { return must.Get(filepath.Glob(w.path("state/sandbox/*/tmp/*")))(t) }
		if got := temps(); len(got) != 2 {
			t.Fatalf("there are %q", got)
		}
		kill()
		// Another server runs meanwhile, and its directory stays.
		polltest.Until(t, "the killed one has ended", func() bool {
			w.prints(t, c, "true", "")
			return len(temps()) == 1
		})
		if got := other("ls /tmp | grep second"); got != "second" {
			t.Errorf("got %q", got)
		}
		if _, err := os.Stat(w.path("outside/kept")); err != nil {
			t.Error(err)
		}
	})
}

// If the process that started bubblewrap is killed, nothing is left, and a job can kill only what is inside.
func TestNothingOutlivesASandbox(t *testing.T) {
	users(t, func(t *testing.T, uid int) {
		w := newWorld(t, uid)
		mark := fmt.Sprintf("98765.%d%d", os.Getpid(), uid)
		running := func() bool {
			paths, _ := filepath.Glob("/proc/[0-9]*/cmdline")
			for _, p := range paths {
				if b, _ := os.ReadFile(p); bytes.Contains(b, []byte("sleep\x00"+mark)) {
					return true
				}
			}
			return false
		}
		say, kill := w.conversation(t, w.config())
		say("sleep " + mark + " >/dev/null 2>&1 & setsid sleep " + mark + " >/dev/null 2>&1 &")
		polltest.Until(t, "the programs run", running)
		kill()
		polltest.Until(t, "nothing is left", func() bool { return !running() })

		say, _ = w.conversation(t, w.config())
		say("setsid sleep " + mark + " >/dev/null 2>&1 &")
		polltest.Until(t, "the program runs", running)
		say("kill -9 -1") // not the shell, but the last program
		if got := say("echo here"); got != "here" {
			t.Errorf("got %q", got)
		}
		polltest.Until(t, "the program has ended", func() bool { return !running() })
	})
}

// Files that are hidden can be read neither in what is written nor in what is read.
func TestHidden(t *testing.T) {
	w := newWorld(t, os.Getuid())
	c := w.config()
	c.Read = []string{w.path("other")}
	for _, path := range []string{w.workspace("tokens"), w.path("other/key"), w.path("outside/key")} {
		w.write(t, path, secret)
		c.Hidden = append(c.Hidden, path)
	}
	c.Hidden = append(c.Hidden, w.path("none"))
	w.prints(t, c, "cat tokens "+w.path("other/key")+" "+w.path("outside/key")+" 2>/dev/null; mv tokens t 2>/dev/null; cat t 2>/dev/null; echo none", "none")
}
