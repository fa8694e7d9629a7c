//go:build linux

package sandbox_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// An escape is one way to reach what is outside. It is also tried without a sandbox, so it must harm only
// the world that was made for it: none may name all processes of a user, for example.
type escape struct {
	name string
	root bool // only root can do it without a sandbox
	tree bool // the workspace is a worktree of the repository repo
	// Try runs inside, and fails if nothing was reached.
	try func(w *world) error
	// Happened reports whether something outside has changed. If it is nil, the error of try decides.
	happened func(w *world) bool
}

// secret is in every file that an escape reads.
const secret = "a secret of the world"

// partEscape tries the escape that args name, in the world that is its second argument.
func partEscape(args []string) int {
	var w world
	if err := json.Unmarshal([]byte(args[1]), &w); err != nil {
		return fail(err)
	}
	runtime.LockOSThread() // some change only their thread
	for _, e := range escapes {
		if e.name == args[0] {
			return fail(e.try(&w))
		}
	}
	return fail(fs.ErrNotExist)
}

// reads returns a try that reads a secret from a path.
func reads(path func(w *world) string) func(*world) error {
	return func(w *world) error {
		b, err := os.ReadFile(path(w))
		return secretIn(b, err)
	}
}

func secretIn(b []byte, err error) error {
	if err == nil && !bytes.Contains(b, []byte(secret)) {
		err = fmt.Errorf("%.80q has no secret", b)
	}
	return err
}

// readable returns a try that reads any byte of a file of the system.
func readable(path string) func(*world) error {
	return func(*world) error {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = f.Read(make([]byte, 1))
		return err
	}
}

// opens returns a try that opens a file of the system for writing.
func opens(path string) func(*world) error {
	return func(*world) error {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return f.Close()
	}
}

// appends returns a try that appends the token to a file.
func appends(path func(w *world) string) func(*world) error {
	return func(w *world) error {
		os.MkdirAll(filepath.Dir(path(w)), 0o755)
		f, err := os.OpenFile(path(w), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = f.WriteString(w.Token)
		return err
	}
}

// has returns a check that a file outside has the token.
func has(path func(w *world) string) func(*world) bool {
	return func(w *world) bool {
		b, _ := os.ReadFile(path(w))
		return bytes.Contains(b, []byte(w.Token))
	}
}

// swaps returns a try that moves a directory away and writes the token to a file of a new one.
func swaps(dir func(w *world) string, file string) func(*world) error {
	return func(w *world) error {
		if err := os.Rename(dir(w), dir(w)+"."+w.Token); err != nil {
			return err
		}
		return appends(func(w *world) string { return filepath.Join(dir(w), file) })(w)
	}
}

// replaces returns a try that puts another file in the place of a file.
func replaces(path func(w *world) string) func(*world) error {
	return func(w *world) error {
		next := filepath.Join(filepath.Dir(path(w)), w.Token)
		if err := os.WriteFile(next, []byte(w.Token), 0o644); err != nil {
			return err
		}
		return os.Rename(next, path(w))
	}
}

func victim(w *world) int {
	pid, _ := strconv.Atoi(w.Facts["victim"])
	return pid
}

// Victims are found by their number outside, and by their name, as a job would look for them.
func findVictim(w *world) (int, error) {
	paths, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, p := range paths {
		if b, err := os.ReadFile(p); err == nil && bytes.Contains(b, []byte("VICTIM="+w.Token)) {
			return strconv.Atoi(strings.Split(p, "/")[2])
		}
	}
	return 0, errors.New("there is no victim")
}

func victimFile(name string) func(*world) string {
	return func(w *world) string { return filepath.Join("/proc", w.Facts["victim"], name) }
}

func victimEnded(w *world) bool {
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if b, _ := os.ReadFile(victimFile("stat")(w)); !bytes.Contains(b, []byte(") S ")) && !bytes.Contains(b, []byte(") R ")) {
			return true
		}
		if w.Facts["confined"] != "" {
			return false // it is alive after the escape has ended
		}
	}
	return false
}

// call makes a system call whose error is that of the try.
func call(nr uintptr, args ...uintptr) func(*world) error {
	return taken(nr, args)
}

// taken makes a system call. Errors in known mean that the kernel has taken the call and found its arguments wrong.
func taken(nr uintptr, args []uintptr, known ...unix.Errno) func(*world) error {
	return func(*world) error {
		var a [6]uintptr
		copy(a[:], args)
		_, _, e := unix.Syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5])
		for _, k := range known {
			if e == k {
				return nil
			}
		}
		if e != 0 {
			return e
		}
		return nil
	}
}

func socket(family, kind, protocol int) func(*world) error {
	return func(*world) error {
		fd, err := unix.Socket(family, kind, protocol)
		if err == nil {
			unix.Close(fd)
		}
		return err
	}
}

// talks returns a try that gets an answer from a server of the world.
func talks(network, fact string) func(*world) error {
	return func(w *world) error {
		var d net.Dialer
		if network == "unixgram" {
			d.LocalAddr = &net.UnixAddr{Net: network, Name: "@" + w.Token}
		}
		c, err := d.Dial(network, w.Facts[fact])
		if err != nil {
			return err
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(time.Second))
		if _, err := io.WriteString(c, "hello\n"); err != nil {
			return err
		}
		b := make([]byte, 100)
		n, err := c.Read(b)
		return secretIn(b[:n], err)
	}
}

// machine makes a function of machine code. It is called with no stack of Go's, so it must need none.
func machine(code []byte) (uintptr, error) {
	page, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return 0, err
	}
	copy(page, code)
	entry := &page[0]
	f := &entry
	return (*(*func() uintptr)(unsafe.Pointer(&f)))(), nil
}

// A program for 32 bits: exit(unshare(CLONE_NEWUTS|CLONE_NEWUSER) != 0).
func program32() []byte {
	code := []byte{
		0xb8, 0x36, 0x01, 0, 0, // mov eax, 310 (unshare)
		0xbb, 0, 0, 0, 0x14, // mov ebx, CLONE_NEWUSER|CLONE_NEWUTS
		0xcd, 0x80, // int 0x80
		0x31, 0xdb, // xor ebx, ebx
		0x85, 0xc0, // test eax, eax
		0x0f, 0x95, 0xc3, // setne bl
		0xb8, 1, 0, 0, 0, // mov eax, 1 (exit)
		0xcd, 0x80, // int 0x80
		0xf4, // hlt
	}
	le := func(n uint32) []byte { return []byte{byte(n), byte(n >> 8), byte(n >> 16), byte(n >> 24)} }
	header := append([]byte("\x7fELF\x01\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x03\x00"), le(1)...)
	const base = 0x08048000
	for _, n := range []uint32{base + 84, 52, 0, 0} {
		header = append(header, le(n)...)
	}
	header = append(header, 52, 0, 32, 0, 1, 0, 40, 0, 0, 0, 0, 0)
	size := uint32(84 + len(code))
	for _, n := range []uint32{1, 0, base, base, size, size, 5, 4096} {
		header = append(header, le(n)...)
	}
	return append(header, code...)
}

func home(name string) func(*world) string { return func(w *world) string { return w.home(name) } }
func workspace(name string) func(*world) string {
	return func(w *world) string { return w.workspace(name) }
}
func in(elements ...string) func(*world) string {
	return func(w *world) string { return w.path(elements...) }
}
func fact(name string) func(*world) string { return func(w *world) string { return w.Facts[name] } }

// amd64 are escapes by machine code.
var amd64 = []escape{
	{name: "system call by int 0x80", try: func(*world) error {
		pid, err := machine([]byte{0xb8, 20, 0, 0, 0, 0xcd, 0x80, 0xc3}) // mov eax, 20 (getpid); int 0x80; ret
		if err == nil && int(pid) != os.Getpid() {
			err = fmt.Errorf("got %d", int32(pid))
		}
		return err
	}},
	{name: "system call of x32", try: func(*world) error {
		pid, err := machine([]byte{0xb8, 39, 0, 0, 0x40, 0x0f, 0x05, 0xc3}) // mov eax, x32|39 (getpid); syscall; ret
		if err == nil && int(pid) != os.Getpid() {
			err = fmt.Errorf("got %d", int32(pid))
		}
		return err
	}},
	{name: "namespace by a program of 32 bits", try: func(w *world) error {
		path := w.workspace("p32." + w.Token)
		if err := os.WriteFile(path, program32(), 0o755); err != nil {
			return err
		}
		return exec.Command(path).Run()
	}},
}

var escapes = append([]escape{
	// Files to read.
	{name: "read a key of ssh", try: reads(home(".ssh/id_ed25519"))},
	{name: "read credentials of a cloud", try: reads(home(".aws/credentials"))},
	{name: "read passwords of git", try: reads(home(".config/git/credentials"))},
	{name: "read passwords of uv", try: reads(home(".local/share/uv/credentials/credentials.toml"))},
	{name: "read tokens of cargo", try: reads(home(".cargo/credentials.toml"))},
	{name: "read .netrc", try: reads(home(".netrc"))},
	{name: "read a shell's history", try: reads(home(".bash_history"))},
	{name: "read a cache", try: reads(home(".cache/tokens"))},
	{name: "read another project", try: reads(in("other/.env"))},
	{name: "read beside the workspace", try: reads(home("work2/.env"))},
	{name: "read records of other servers", try: reads(in("state/records"))},
	{name: "read another sandbox", try: reads(in("state/sandbox/ffffffffffffffff/state/records"))},
	{name: "read a temporary file of others", try: reads(in("outside/temporary"))},
	{name: "read in /var/tmp", try: reads(fact("var-tmp"))},
	{name: "read in /dev/shm", try: reads(fact("shm-file"))},
	{name: "read through a link out", try: reads(workspace("link-out"))},
	{name: "read through a link of a directory", try: reads(workspace("home-link/.netrc"))},
	{name: "read above the workspace", try: reads(func(*world) string { return "../.netrc" })},
	{name: "read by /proc/self/root", try: reads(func(w *world) string { return "/proc/self/root" + w.home(".netrc") })},
	{name: "read by /proc/self/cwd", try: reads(func(*world) string { return "/proc/self/cwd/../.netrc" })},
	{name: "read by a descriptor of a directory", try: func(w *world) error {
		fd, err := unix.Open("/", unix.O_PATH, 0)
		if err != nil {
			return err
		}
		f, err := unix.Openat(fd, strings.TrimPrefix(w.home(".netrc"), "/"), unix.O_RDONLY, 0)
		if err != nil {
			return err
		}
		b, err := io.ReadAll(os.NewFile(uintptr(f), ""))
		return secretIn(b, err)
	}},
	{name: "hard link into the workspace", try: func(w *world) error {
		if err := os.Link(w.home(".netrc"), w.workspace("hard."+w.Token)); err != nil {
			return err
		}
		return reads(workspace("hard." + w.Token))(w)
	}},
	{name: "read packages of the system", try: readable("/var/lib/dpkg/status")},
	{name: "read another home", root: true, try: readable("/root/.profile")},
	{name: "read /etc/shadow", root: true, try: readable("/etc/shadow")},
	{name: "read /etc/gshadow", root: true, try: readable("/etc/gshadow")},
	{name: "read a copy of /etc/shadow", root: true, try: readable("/etc/shadow-")},
	{name: "read a file of /etc that is not for all", try: reads(in("etc/secret"))},
	{name: "read in a directory of /etc that is not for all", try: reads(in("etc/private/key"))},
	{name: "read in /run", root: true, try: reads(fact("run-secret"))},
	{name: "read a disk", root: true, try: func(w *world) error {
		var st unix.Stat_t
		if err := unix.Stat(w.workspace(""), &st); err != nil {
			return err
		}
		path := w.workspace("disk." + w.Token)
		if err := unix.Mknod(path, unix.S_IFBLK|0o600, int(st.Dev)); err != nil {
			return err
		}
		return readable(path)(w)
	}},
	{name: "read memory of the kernel", root: true, try: readable("/proc/kcore")},
	{name: "read messages of the kernel from a device", root: true, try: func(*world) error {
		fd, err := unix.Open("/dev/kmsg", unix.O_RDONLY|unix.O_NONBLOCK, 0)
		if err == nil {
			_, err = unix.Read(fd, make([]byte, 8192))
		}
		return err
	}},
	{name: "open a device of the machine", root: true, try: opens("/dev/loop-control")},
	{name: "read debug files of the kernel", root: true, try: func(*world) error {
		entries, err := os.ReadDir("/sys/kernel/debug")
		if err == nil && len(entries) == 0 {
			err = errors.New("there are none")
		}
		return err
	}},
	{name: "open a file by its handle", root: true, try: func(w *world) error {
		h, mount, err := unix.NameToHandleAt(unix.AT_FDCWD, w.workspace(""), 0)
		_ = mount
		if err != nil {
			return err
		}
		dir, err := os.Open(w.workspace(""))
		if err != nil {
			return err
		}
		_, err = unix.OpenByHandleAt(int(dir.Fd()), h, unix.O_RDONLY)
		return err
	}},

	// Files to write.
	{name: "append to .bashrc", try: appends(home(".bashrc")), happened: has(home(".bashrc"))},
	{name: "replace .profile", try: replaces(home(".profile")), happened: has(home(".profile"))},
	{name: "let a key in", try: appends(home(".ssh/authorized_keys")), happened: has(home(".ssh/authorized_keys"))},
	{name: "start with the desktop", try: appends(home(".config/autostart/x.desktop")), happened: has(home(".config/autostart/x.desktop"))},
	{name: "write a program on the PATH", try: appends(home(".local/bin/tool")), happened: has(home(".local/bin/tool"))},
	{name: "write settings of git", try: appends(home(".gitconfig")), happened: has(home(".gitconfig"))},
	{name: "poison a cache", try: appends(home(".cache/pip/wheel")), happened: has(home(".cache/pip/wheel"))},
	{name: "write another project", try: appends(in("other/Makefile")), happened: has(in("other/Makefile"))},
	{name: "write pip of other servers", try: appends(in("state/pip/pip.py")), happened: has(in("state/pip/pip.py"))},
	{name: "replace pip of other servers", try: replaces(in("state/pip/pip.py")), happened: has(in("state/pip/pip.py"))},
	{name: "put another pip beside that of other servers", try: appends(in("state/pip/json.py")), happened: has(in("state/pip/json.py"))},
	{name: "write records of other servers", try: appends(in("state/records")), happened: has(in("state/records"))},
	{name: "write records of another sandbox", try: appends(in("state/sandbox/ffffffffffffffff/state/records")), happened: has(in("state/sandbox/ffffffffffffffff/state/records"))},
	{name: "swap the state directory", try: func(w *world) error { return os.Rename(w.path("state/sandbox"), w.path("state/sandbox")+"."+w.Token) },
		happened: func(w *world) bool {
			from := w.path("state/sandbox") + "." + w.Token
			if _, err := os.Lstat(from); err != nil {
				return false
			}
			os.Rename(from, w.path("state/sandbox"))
			return true
		}},
	{name: "write the directory of sandboxes", try: appends(in("state/sandbox/0123456789abcdef/planted")), happened: has(in("state/sandbox/0123456789abcdef/planted"))},
	{name: "write a temporary file of others", try: appends(in("outside/temporary")), happened: has(in("outside/temporary"))},
	{name: "write through a link out", try: appends(workspace("link-out")), happened: has(home(".netrc"))},
	{name: "write this program", try: replaces(fact("program")), happened: has(fact("program"))},
	{name: "write in /etc", root: true, try: opensNameless("/etc")},
	{name: "write in /usr/local/bin", root: true, try: opensNameless("/usr/local/bin")},
	{name: "write a file of /etc", root: true, try: opens("/etc/hosts")},
	{name: "write a hook of git", try: appends(workspace(".git/hooks/pre-commit")), happened: has(workspace(".git/hooks/pre-commit"))},
	{name: "write another hook of git", try: appends(workspace(".git/hooks/post-checkout")), happened: has(workspace(".git/hooks/post-checkout"))},
	{name: "write config of git", try: appends(workspace(".git/config")), happened: has(workspace(".git/config"))},
	{name: "replace config of git", try: replaces(workspace(".git/config")), happened: has(workspace(".git/config"))},
	{name: "swap hooks of git", try: swaps(workspace(".git/hooks"), "pre-commit"), happened: has(workspace(".git/hooks/pre-commit"))},
	{name: "swap the git directory", try: swaps(workspace(".git"), "config"), happened: has(workspace(".git/config"))},
	{name: "write config of a submodule", try: appends(workspace(".git/modules/a/b/config")), happened: has(workspace(".git/modules/a/b/config"))},
	{name: "swap the git directories of submodules", try: swaps(workspace(".git/modules"), "a/b/config"), happened: has(workspace(".git/modules/a/b/config"))},
	{name: "write the commondir of another worktree", try: appends(workspace(".git/worktrees/t/commondir")), happened: has(workspace(".git/worktrees/t/commondir"))},
	{name: "write a hook of a worktree", tree: true, try: appends(in("repo/.git/hooks/pre-commit")), happened: has(in("repo/.git/hooks/pre-commit"))},
	{name: "write config of a worktree", tree: true, try: appends(in("repo/.git/config")), happened: has(in("repo/.git/config"))},
	{name: "replace the file that names the git directory", tree: true, try: replaces(in("tree/.git")), happened: has(in("tree/.git"))},
	{name: "write where a worktree is", tree: true, try: appends(in("repo/.git/worktrees/tree/gitdir")), happened: has(in("repo/.git/worktrees/tree/gitdir"))},
	{name: "write the repository of a worktree", tree: true, try: appends(in("repo/Makefile")), happened: has(in("repo/Makefile"))},
	{name: "write settings of an agent", try: appends(workspace(".claude/settings.json")), happened: has(workspace(".claude/settings.json"))},
	{name: "swap settings of an agent", try: swaps(workspace(".claude"), "settings.json"), happened: has(workspace(".claude/settings.json"))},
	{name: "write tasks of an editor", try: appends(workspace(".vscode/tasks.json")), happened: has(workspace(".vscode/tasks.json"))},
	{name: "write servers of an agent", try: appends(workspace(".mcp.json")), happened: has(workspace(".mcp.json"))},
	{name: "replace servers of an agent", try: replaces(workspace(".mcp.json")), happened: has(workspace(".mcp.json"))},
	{name: "write .envrc", try: appends(workspace(".envrc")), happened: has(workspace(".envrc"))},
	{name: "swap the workspace", try: swaps(workspace(""), ".envrc"), happened: has(workspace(".envrc"))},
	{name: "write a setting of the kernel", root: true, try: func(*world) error {
		const path = "/proc/sys/vm/swappiness"
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(path, b, 0)
	}},
	{name: "choose a program for crashes", root: true, try: opens("/proc/sys/kernel/core_pattern")},
	{name: "press SysRq", root: true, try: opens("/proc/sysrq-trigger")},
	{name: "move interrupts", root: true, try: opens("/proc/irq/default_smp_affinity")},
	{name: "write types of memory", root: true, try: opens("/proc/mtrr")},
	{name: "write /sys", root: true, try: opens("/sys/kernel/mm/transparent_hugepage/enabled")},
	{name: "open the directory of groups of processes", root: true, try: func(w *world) error {
		paths, _ := filepath.Glob("/sys/fs/cgroup/*/cgroup.procs")
		for _, p := range append(paths, "/sys/fs/cgroup/cgroup.procs") {
			if opens(p)(w) == nil {
				return nil
			}
		}
		return errors.New("none can be opened")
	}},

	// Processes.
	{name: "find a process", try: func(w *world) error { _, err := findVictim(w); return err }},
	{name: "kill a process", try: func(w *world) error { return unix.Kill(victim(w), unix.SIGKILL) }, happened: victimEnded},
	{name: "kill by a descriptor of the process", try: func(w *world) error {
		fd, err := unix.PidfdOpen(victim(w), 0)
		if err != nil {
			return err
		}
		return unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	}, happened: victimEnded},
	{name: "kill by the owner of a file", try: func(w *world) error {
		r, wr, err := os.Pipe()
		if err != nil {
			return err
		}
		fd := r.Fd()
		for _, c := range [][2]int{{unix.F_SETOWN, victim(w)}, {unix.F_SETSIG, int(unix.SIGKILL)}, {unix.F_SETFL, unix.O_ASYNC | unix.O_NONBLOCK}} {
			if _, err := unix.FcntlInt(fd, c[0], c[1]); err != nil {
				return err
			}
		}
		_, err = wr.Write([]byte("x"))
		return err
	}, happened: victimEnded},
	{name: "stop by the group of a process", try: func(w *world) error { return unix.Kill(-victim(w), unix.SIGKILL) }, happened: victimEnded},
	{name: "trace a process", try: func(w *world) error { return unix.PtraceAttach(victim(w)) }},
	{name: "slow a process", try: func(w *world) error { return unix.Setpriority(unix.PRIO_PROCESS, victim(w), 19) }},
	{name: "choose the processor of a process", try: func(w *world) error {
		var set unix.CPUSet
		set.Set(0)
		return unix.SchedSetaffinity(victim(w), &set)
	}},
	{name: "limit a process", try: func(w *world) error {
		return unix.Prlimit(victim(w), unix.RLIMIT_CORE, &unix.Rlimit{}, nil)
	}},
	{name: "let the kernel choose a process when memory ends", try: opensAt(victimFile("oom_score_adj"))},
	{name: "read memory of a process", try: opensAt(victimFile("mem"))},
	{name: "read memory of a process by a call", try: func(w *world) error {
		b := make([]byte, 1)
		_, err := unix.ProcessVMReadv(victim(w), []unix.Iovec{{Base: &b[0], Len: 1}}, []unix.RemoteIovec{{Base: 0x1000, Len: 1}}, 0)
		if err == unix.EFAULT { // there is nothing at the address
			err = nil
		}
		return err
	}},
	{name: "read variables of a process", try: func(w *world) error {
		b, err := os.ReadFile(victimFile("environ")(w))
		if err == nil && !bytes.Contains(b, []byte("VICTIM=")) {
			err = errors.New("they are those of another")
		}
		return err
	}},
	{name: "read by the root of a process", try: reads(func(w *world) string { return victimFile("root")(w) + w.home(".netrc") })},
	{name: "read by the directory of a process", try: reads(func(w *world) string { return victimFile("cwd")(w) + "/../.netrc" })},
	{name: "read by the root of the first process", root: true, try: reads(func(w *world) string { return "/proc/1/root" + w.home(".netrc") })},
	{name: "read by an open file of a process", try: reads(victimFile("fd/0"))},
	{name: "take an open file of a process", try: func(w *world) error {
		p, err := unix.PidfdOpen(victim(w), 0)
		if err != nil {
			return err
		}
		fd, err := unix.PidfdGetfd(p, 0, 0)
		if err != nil {
			return err
		}
		b := make([]byte, 100)
		n, err := unix.Pread(fd, b, 0)
		return secretIn(b[:max(n, 0)], err)
	}},
	{name: "keep privileges", root: true, try: func(*world) error {
		b, err := os.ReadFile("/proc/self/status")
		if err == nil && (bytes.Contains(b, []byte("CapEff:\t0000000000000000")) || bytes.Contains(b, []byte("CapPrm:\t0000000000000000"))) {
			err = errors.New("there are none")
		}
		return err
	}},

	// Sockets.
	{name: "reach a server by TCP", try: talks("tcp", "tcp")},
	{name: "reach a server by TCP of IPv6", try: talks("tcp", "tcp6")},
	{name: "reach a server by UDP", try: talks("udp", "udp")},
	{name: "reach a server by a Unix socket", try: talks("unix", "unix")},
	{name: "reach a server by an abstract Unix socket", try: talks("unix", "abstract")},
	{name: "reach a server by datagrams of an abstract Unix socket", try: talks("unixgram", "abstract-datagrams")},
	{name: "reach another server of the user", try: talks("unix", "other-server")},
	{name: "list sockets of the machine", try: func(w *world) error {
		_, port, err := net.SplitHostPort(w.Facts["tcp"])
		if err != nil {
			return err
		}
		n, _ := strconv.Atoi(port)
		b, err := os.ReadFile("/proc/net/tcp")
		if err == nil && !bytes.Contains(b, fmt.Appendf(nil, ":%04X ", n)) {
			err = errors.New("that of the server is not there")
		}
		return err
	}},
	{name: "list Unix sockets of the machine", try: func(w *world) error {
		b, err := os.ReadFile("/proc/net/unix")
		if err == nil && !bytes.Contains(b, []byte(w.Facts["abstract"])) {
			err = errors.New("that of the server is not there")
		}
		return err
	}},
	{name: "reach a server by packets of an abstract Unix socket", try: func(w *world) error { return talks("unixpacket", "abstract-packets")(w) }},
	{name: "reach a server by datagrams of a Unix socket", try: func(w *world) error {
		c, err := net.Dial("unixgram", w.Facts["datagrams"])
		if err != nil {
			return err
		}
		defer c.Close()
		_, err = io.WriteString(c, "hello")
		return err
	}},
	{name: "socket of the kernel's ciphers", try: socket(unix.AF_ALG, unix.SOCK_SEQPACKET, 0)},
	{name: "socket of packets", root: true, try: socket(unix.AF_PACKET, unix.SOCK_RAW, 0)},
	{name: "socket of raw IP", root: true, try: socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP)},
	{name: "socket to the host of a virtual machine", try: socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0)},
	{name: "socket of MPTCP", try: socket(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP)},
	{name: "socket of MPTCP with bits that the kernel drops", try: taken(unix.SYS_SOCKET, []uintptr{1<<32 | unix.AF_INET, 1<<32 | unix.SOCK_STREAM, 1<<32 | unix.IPPROTO_MPTCP})},
	{name: "netlink socket of devices", try: socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_KOBJECT_UEVENT)},
	{name: "netlink socket of generic services", try: socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_GENERIC)},
	{name: "netlink socket with bits that the kernel drops", try: taken(unix.SYS_SOCKET, []uintptr{1<<32 | unix.AF_NETLINK, unix.SOCK_RAW, 1<<32 | unix.NETLINK_GENERIC})},

	// Shared memory and its like.
	{name: "attach shared memory", try: func(w *world) error {
		id, err := strconv.Atoi(w.Facts["shm"])
		if err != nil {
			return err
		}
		b, err := unix.SysvShmAttach(id, 0, unix.SHM_RDONLY)
		return secretIn(b, err)
	}},
	{name: "find a queue of messages", try: func(w *world) error {
		key, err := strconv.Atoi(w.Facts["key"])
		if err != nil {
			return err
		}
		return call(unix.SYS_MSGGET, uintptr(key), 0)(w)
	}},
	{name: "find semaphores", try: func(w *world) error {
		key, err := strconv.Atoi(w.Facts["key"])
		if err != nil {
			return err
		}
		return call(unix.SYS_SEMGET, uintptr(key), 0, 0)(w)
	}},
	{name: "open a queue of POSIX", try: func(w *world) error {
		name, err := unix.BytePtrFromString(w.Facts["mq"])
		if err != nil {
			return err
		}
		return call(unix.SYS_MQ_OPEN, uintptr(unsafe.Pointer(name)), unix.O_RDWR)(w)
	}},

	// Terminals.
	{name: "type into a terminal", try: opensAt(fact("terminal"))},
	// The kernel takes the request, and finds that a directory is no terminal.
	{name: "request to put input into a terminal", try: terminalRequest(unix.TIOCSTI)},
	{name: "request to put input into a terminal with bits that the kernel drops", try: terminalRequest(1<<32 | unix.TIOCSTI)},
	{name: "request to paste into a console", try: terminalRequest(unix.TIOCLINUX)},
	{name: "request to paste into a console with bits that the kernel drops", try: terminalRequest(1<<40 | unix.TIOCLINUX)},
	{name: "open the console", root: true, try: opens("/dev/tty0")},

	// The kernel.
	{name: "new namespace of users", try: func(*world) error { return exec.Command("unshare", "--user", "true").Run() }},
	{name: "new namespaces for a child", try: func(*world) error {
		cmd := exec.Command("/bin/true")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNET}
		return cmd.Run()
	}},
	{name: "clone3", try: taken(unix.SYS_CLONE3, nil, unix.EINVAL)},
	{name: "enter a namespace", try: taken(unix.SYS_SETNS, []uintptr{^uintptr(0), 0}, unix.EBADF)},
	{name: "io_uring", try: func(*world) error {
		var params [120]byte
		return call(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&params)))(nil)
	}},
	{name: "userfaultfd", try: call(unix.SYS_USERFAULTFD, 1 /* UFFD_USER_MODE_ONLY */)},
	{name: "perf_event_open", try: taken(unix.SYS_PERF_EVENT_OPEN, []uintptr{1}, unix.EFAULT)},
	{name: "bpf", try: taken(unix.SYS_BPF, []uintptr{0, 1, 8}, unix.EFAULT)},
	{name: "add a key to a keyring", try: func(w *world) error {
		_, err := unix.AddKey("user", w.Token, []byte("x"), unix.KEY_SPEC_PROCESS_KEYRING)
		return err
	}},
	{name: "join the keyring of the user", try: func(*world) error {
		_, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_USER_KEYRING, true)
		return err
	}},
	{name: "list keys of the user", try: readable("/proc/keys")},
	{name: "request a key", try: taken(unix.SYS_REQUEST_KEY, nil, unix.EFAULT)},
	{name: "load a module", root: true, try: taken(unix.SYS_FINIT_MODULE, []uintptr{^uintptr(0), 0, 0}, unix.EBADF, unix.EFAULT)},
	{name: "unload a module", root: true, try: taken(unix.SYS_DELETE_MODULE, nil, unix.EFAULT)},
	{name: "read the clock's settings", try: func(*world) error {
		var t unix.Timex
		_, err := unix.Adjtimex(&t)
		return err
	}},
	{name: "adjust a clock", try: func(*world) error {
		var t unix.Timex
		_, err := unix.ClockAdjtime(unix.CLOCK_REALTIME, &t)
		return err
	}},
	{name: "set a clock", root: true, try: taken(unix.SYS_CLOCK_SETTIME, []uintptr{unix.CLOCK_MONOTONIC, 1}, unix.EFAULT, unix.EINVAL)},
	{name: "reboot with wrong numbers", root: true, try: taken(unix.SYS_REBOOT, nil, unix.EINVAL)},
	{name: "name the machine", root: true, try: func(*world) error {
		var u unix.Utsname
		if err := unix.Uname(&u); err != nil {
			return err
		}
		name, _, _ := bytes.Cut(u.Nodename[:], []byte{0})
		return unix.Sethostname(name)
	}},
	{name: "read the log of the kernel", root: true, try: func(*world) error {
		_, err := unix.Klogctl(10 /* its size */, nil)
		return err
	}},
	{name: "open a tree of mounts", try: call(unix.SYS_OPEN_TREE, uintptr(unix.AT_FDCWD&(1<<64-1)), uintptr(unsafe.Pointer(unsafe.StringData("/\x00"))), 0)},
	{name: "make a file system", root: true, try: func(*world) error { _, err := unix.Fsopen("tmpfs", 0); return err }},
	{name: "mount", root: true, try: func(w *world) error {
		if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
			return err
		}
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			return err
		}
		return unix.Mount("tmpfs", w.path("outside"), "tmpfs", 0, "")
	}},
	{name: "change the root", root: true, try: func(w *world) error { return unix.Chroot(w.workspace("")) }},
	{name: "swap to a file", root: true, try: taken(unix.SYS_SWAPOFF, []uintptr{uintptr(unsafe.Pointer(unsafe.StringData("/none\x00")))}, unix.ENOENT)},
}, amd64...)

// opensNameless returns a try that writes into a directory of the system and leaves nothing there.
func opensNameless(dir string) func(*world) error {
	return func(*world) error {
		fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_WRONLY, 0o600)
		if err == nil {
			err = unix.Close(fd)
		}
		return err
	}
}

func opensAt(path func(*world) string) func(*world) error {
	return func(w *world) error { return opens(path(w))(w) }
}

func terminalRequest(request uintptr) func(*world) error {
	return func(*world) error {
		dir, err := os.Open("/")
		if err != nil {
			return err
		}
		var c byte = 'x'
		return taken(unix.SYS_IOCTL, []uintptr{dir.Fd(), request, uintptr(unsafe.Pointer(&c))}, unix.ENOTTY)(nil)
	}
}
