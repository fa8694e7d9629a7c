//go:build linux

package sandbox_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/tiedtest"
)

// leastEscapes is how many escapes must have worked without a sandbox, on a kernel that lacks some of
// what they use.
const leastEscapes = 60

func TestNothingEscapes(t *testing.T) {
	users(t, func(t *testing.T, uid int) {
		w := newWorld(t, uid)
		furnish(t, w)
		worked, tried := 0, 0
		for i, e := range escapes {
			if e.root && uid != 0 || runtime.GOARCH != "amd64" && slices.ContainsFunc(amd64, func(a escape) bool { return a.name == e.name }) {
				continue
			}
			t.Run(e.name, func(t *testing.T) {
				tried++
				// First inside, because what works outside changes the world.
				w.Token = fmt.Sprintf("confined-%d-%d", uid, i)
				if text, escaped := w.try(t, e, false); escaped {
					t.Errorf("%s: it escaped: %s", e.name, text)
				}
				w.Token = fmt.Sprintf("plain-%d-%d", uid, i)
				text, escaped := w.try(t, e, true)
				restore(t, w)
				if !escaped {
					t.Skipf("%s does not work without a sandbox either: %s", e.name, text)
				}
				worked++
			})
		}
		t.Logf("%d escapes worked without a sandbox", worked)
		if worked < leastEscapes && tried >= leastEscapes { // fewer are tried if a flag of go test says so
			t.Errorf("only %d escapes worked without a sandbox, want %d", worked, leastEscapes)
		}
	})
}

// try tries an escape and reports whether it worked.
func (w *world) try(t *testing.T, e escape, plain bool) (text string, escaped bool) {
	t.Helper()
	v := exec.Command("/bin/sleep", "1000")
	v.Env = []string{"VICTIM=" + w.Token}
	v.Dir = w.workspace("")
	v.Stdin = must.Get(os.Open(w.home(".netrc")))(t)
	v.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if os.Getuid() != w.UID {
		v.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(w.UID), Gid: uint32(w.UID)}
	}
	must.Do(t, tiedtest.Start(v, syscall.SIGKILL))
	defer v.Wait()
	defer v.Process.Kill()
	w.Facts["victim"] = strconv.Itoa(v.Process.Pid)
	delete(w.Facts, "confined")
	if !plain {
		w.Facts["confined"] = "yes"
	}
	var out bytes.Buffer
	c := w.config()
	c.Programs = append(c.Programs, w.Facts["program"])
	if e.tree {
		c.Workspace = w.path("tree")
	}
	for tries := 3; ; tries-- {
		cmd := w.command(t, launch{Config: c, Plain: plain, Etc: w.path("etc"), Dir: c.Workspace, Program: []string{self, "part-escape", e.name, string(must.Get(json.Marshal(w))(t))}})
		cmd.Stdout, cmd.Stderr = &out, &out
		err := cmd.Run()
		text, escaped = strings.TrimSpace(out.String()), err == nil
		if plain || !strings.Contains(text, "bwrap: ") && !strings.Contains(text, "broken: ") {
			break
		}
		if tries == 1 {
			t.Fatalf("the sandbox was not started: %s", text)
		}
		out.Reset() // for root, another program can have removed a file of /etc since it was checked
	}
	if e.happened != nil {
		escaped = e.happened(w)
	}
	return text, escaped
}

// furnish puts into a world what escapes look for.
func furnish(t *testing.T, w *world) {
	t.Helper()
	for _, path := range []string{
		w.home(".ssh/id_ed25519"), w.home(".aws/credentials"), w.home(".config/git/credentials"), w.home(".local/share/uv/credentials/credentials.toml"),
		w.home(".cargo/credentials.toml"), w.home(".netrc"), w.home(".bash_history"), w.home(".cache/tokens"), w.home("work2/.env"), w.path("other/.env"),
		w.path("state/records"), w.path("state/sandbox/ffffffffffffffff/state/records"), w.path("outside/temporary"),
		w.path("etc/secret"), w.path("etc/private/key"),
	} {
		w.write(t, path, secret)
	}
	for _, path := range []string{
		w.home(".bashrc"), w.home(".profile"), w.home(".local/bin/tool"), w.home(".local/share/uv/tools/x"), w.home(".gitconfig"), w.home(".config/git/config"),
		w.home(".cargo/bin/x"), w.home(".config/autostart/y"), w.home(".cache/pip/x"), w.path("other/Makefile"), w.path("state/pip/pip.py"),
	} {
		w.write(t, path, "as it was\n")
	}
	must.Do(t, os.Symlink(w.home(".netrc"), w.workspace("link-out")))
	must.Do(t, os.Symlink(w.home(""), w.workspace("home-link")))
	// The program is in the workspace, as one is that is being developed.
	w.Facts["program"] = w.workspace("bin/program")
	w.write(t, w.Facts["program"], "as it was\n")
	obeyedFiles(t, w)
	for file, text := range map[string]string{
		"repo/.git/HEAD": "ref: refs/heads/main\n", "repo/.git/objects/x": "", "repo/.git/refs/x": "", "repo/.git/config": "", "repo/.git/hooks/pre-commit": "",
		"repo/.git/worktrees/tree/HEAD": "ref: refs/heads/t\n", "repo/.git/worktrees/tree/commondir": "../..\n", "repo/.git/worktrees/tree/gitdir": w.path("tree/.git") + "\n",
		"repo/Makefile": "", "tree/.git": "gitdir: " + w.path("repo/.git/worktrees/tree") + "\n",
	} {
		w.write(t, w.path(file), text)
	}
	w.own(t)
	must.Do(t, os.Chmod(w.path("etc/secret"), 0o600))
	must.Do(t, os.Chmod(w.path("etc/private"), 0o700))

	place := func(dir, fact string, mode os.FileMode) {
		f := must.Get(os.CreateTemp(dir, "sandbox-test-"))(t)
		t.Cleanup(func() { os.Remove(f.Name()) })
		must.Get(f.WriteString(secret))(t)
		must.Do(t, f.Close())
		must.Do(t, os.Chmod(f.Name(), mode))
		w.Facts[fact] = f.Name()
	}
	place("/var/tmp", "var-tmp", 0o644)
	place("/dev/shm", "shm-file", 0o644)
	if w.UID == 0 {
		place("/run", "run-secret", 0o644)
	}

	// Servers send a secret to any client that sends anything.
	runtime := w.path("outside")
	for fact, address := range map[string][2]string{
		"tcp": {"tcp", "127.0.0.1:0"}, "tcp6": {"tcp", "[::1]:0"}, "abstract": {"unix", fmt.Sprintf("@sandbox-test-%d-%d", os.Getpid(), w.UID)},
		"abstract-packets": {"unixpacket", fmt.Sprintf("@sandbox-packets-%d-%d", os.Getpid(), w.UID)},
		"unix":             {"unix", filepath.Join(runtime, "socket")}, "other-server": {"unix", filepath.Join(runtime, "0123456789abcdef-1")},
	} {
		l, err := net.Listen(address[0], address[1])
		if fact == "tcp6" && err != nil {
			continue // the machine has no IPv6
		}
		must.Do(t, err)
		t.Cleanup(func() { l.Close() })
		w.Facts[fact] = l.Addr().String()
		if l.Addr().Network() == "unix" && !strings.HasPrefix(w.Facts[fact], "@") {
			must.Do(t, os.Chmod(w.Facts[fact], 0o777))
		}
		go func() { // owned by the test; ends with the listener
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				c.Read(make([]byte, 100))
				io.WriteString(c, secret)
				c.Close()
			}
		}()
	}
	for fact, address := range map[string][2]string{"udp": {"udp", "127.0.0.1:0"}, "datagrams": {"unixgram", filepath.Join(runtime, "datagrams")}, "abstract-datagrams": {"unixgram", fmt.Sprintf("@sandbox-datagrams-%d-%d", os.Getpid(), w.UID)}} {
		var c net.PacketConn
		if address[0] == "udp" {
			c = must.Get(net.ListenPacket(address[0], address[1]))(t)
		} else {
			c = must.Get(net.ListenUnixgram(address[0], &net.UnixAddr{Net: address[0], Name: address[1]}))(t)
		}
		t.Cleanup(func() { c.Close() })
		w.Facts[fact] = c.LocalAddr().String()
		if fact == "datagrams" {
			must.Do(t, os.Chmod(w.Facts[fact], 0o777))
		}
		go func() { // owned by the test; ends with the socket
			b := make([]byte, 100)
			for {
				_, from, err := c.ReadFrom(b)
				if err != nil {
					return
				}
				c.WriteTo([]byte(secret), from)
			}
		}()
	}

	key := 0x5a000000 + os.Getpid()*2 + min(w.UID, 1)
	w.Facts["key"] = strconv.Itoa(key)
	shm := must.Get(unix.SysvShmGet(key, 4096, unix.IPC_CREAT|0o666))(t)
	t.Cleanup(func() { unix.SysvShmCtl(shm, unix.IPC_RMID, nil) })
	copy(must.Get(unix.SysvShmAttach(shm, 0, 0))(t), secret)
	w.Facts["shm"] = strconv.Itoa(shm)
	ipc := func(get, remove uintptr, args ...uintptr) {
		var a [3]uintptr
		copy(a[:], args)
		id, _, e := unix.Syscall(get, a[0], a[1], a[2])
		if e != 0 {
			t.Fatal(e)
		}
		t.Cleanup(func() {
			if remove == unix.SYS_SEMCTL {
				unix.Syscall(remove, id, 0, unix.IPC_RMID)
			} else {
				unix.Syscall(remove, id, unix.IPC_RMID, 0)
			}
		})
	}
	ipc(unix.SYS_MSGGET, unix.SYS_MSGCTL, uintptr(key), unix.IPC_CREAT|0o666)
	ipc(unix.SYS_SEMGET, unix.SYS_SEMCTL, uintptr(key), 1, unix.IPC_CREAT|0o666)
	w.Facts["mq"] = fmt.Sprintf("sandbox-test-%d-%d", os.Getpid(), w.UID)
	mq := must.Get(unix.BytePtrFromString(w.Facts["mq"]))(t)
	mask := unix.Umask(0)
	fd, _, e := unix.Syscall6(unix.SYS_MQ_OPEN, uintptr(unsafe.Pointer(mq)), unix.O_CREAT|unix.O_RDWR, 0o666, 0, 0, 0)
	unix.Umask(mask)
	if e == 0 { // otherwise the kernel has no such queues
		unix.Close(int(fd))
		t.Cleanup(func() { unix.Syscall(unix.SYS_MQ_UNLINK, uintptr(unsafe.Pointer(mq)), 0, 0) })
	}

	master, terminal := must.Get2(pty.Open())(t)
	t.Cleanup(func() { master.Close(); terminal.Close() })
	must.Do(t, terminal.Chown(w.UID, w.UID))
	w.Facts["terminal"] = terminal.Name()
}

// obeyedFiles writes the files of the workspace that programs outside obey.
func obeyedFiles(t testing.TB, w *world) {
	t.Helper()
	for _, name := range []string{
		".git/hooks/pre-commit", ".git/config", ".git/HEAD", ".git/modules/a/b/config", ".git/modules/a/b/HEAD", ".git/worktrees/t/commondir",
		".claude/settings.json", ".vscode/tasks.json", ".mcp.json", ".envrc",
	} {
		w.write(t, w.workspace(name), "as it was\n")
	}
}

// restore puts the directories back that an escape has moved away.
func restore(t testing.TB, w *world) {
	t.Helper()
	moved := must.Get(filepath.Glob(w.home("*." + w.Token)))(t)
	for _, pattern := range []string{"*", ".*", ".git/*"} {
		moved = append(moved, must.Get(filepath.Glob(w.workspace(pattern)+"."+w.Token))(t)...)
	}
	for _, from := range moved {
		to := strings.TrimSuffix(from, "."+w.Token)
		if info, err := os.Lstat(from); err == nil && info.IsDir() {
			must.Do(t, os.RemoveAll(to))
			must.Do(t, os.Rename(from, to))
		}
	}
}
