//go:build linux

// Package sshdtest starts an sshd for tests: on the loopback, with keys, a configuration and a home of its own.
// It works as root and as an ordinary user whose login shell lets someone in. Begin with Start.
package sshdtest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/polltest"
	"asyncrepl/internal/test/tiedtest"
)

// Host is the name by which a Server's configuration of ssh knows it.
const Host = "box"

// mark is the variable by which a Server knows what it has started.
const mark = "SSHDTEST"

// program is an absolute path, without which sshd refuses to start.
const program = "/usr/sbin/sshd"

// A Server is an sshd.
type Server struct {
	Config string // the configuration of ssh
	Home   string // the home of what it starts
	Known  string // the file of its key, as ssh knows it
	Key    string // the file of the key that it lets in; the public one is in Key.pub
	Port   int

	conf string // its own configuration
	log  string
	mark string
	cmd  *exec.Cmd // nil: it does not run
}

// Start starts an sshd with more lines in its configuration, which ends with the test together with all that
// was started through it. The test is skipped if there is no sshd, or if the user can't log in.
func Start(t testing.TB, lines ...string) *Server {
	t.Helper()
	if _, err := os.Stat(program); err != nil {
		t.Skip("there is no sshd")
	}
	me := must.Get(user.Current())(t)
	if shell := shellOf(t, me.Username); strings.HasSuffix(shell, "/nologin") || strings.HasSuffix(shell, "/false") {
		t.Skipf("the login shell of %s is %s", me.Username, shell)
	}
	if os.Getuid() == 0 {
		must.Do(t, os.MkdirAll("/run/sshd", 0o755)) // sshd needs it, and a system without an init has not made it
	}
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	s := &Server{
		Config: in("config"), Home: in("home"), Known: in("known"), Key: in("id"), Port: freePort(t),
		conf: in("sshd_config"), log: in("log"), mark: filepath.Base(dir) + filepath.Base(filepath.Dir(dir)),
	}
	must.Do(t, os.Mkdir(s.Home, 0o700))
	public := NewKey(t, in("host"))
	NewKey(t, s.Key)
	must.Do(t, os.WriteFile(s.Known, fmt.Appendf(nil, "[127.0.0.1]:%d %s", s.Port, public), 0o600))
	must.Do(t, os.WriteFile(s.Config, fmt.Appendf(nil, `Host %s
HostName 127.0.0.1
Port %d
User %s
IdentityFile %s
IdentitiesOnly yes
IdentityAgent none
UserKnownHostsFile %s
GlobalKnownHostsFile /dev/null
StrictHostKeyChecking ask
`, Host, s.Port, me.Username, s.Key, s.Known), 0o600))
	// The first value of a keyword counts, so the lines of the test come first.
	must.Do(t, os.WriteFile(s.conf, fmt.Appendf(nil, `%s
Port %d
ListenAddress 127.0.0.1
HostKey %s
AuthorizedKeysFile %s.pub
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PidFile none
MaxStartups 200
SetEnv %s=%s HOME=%s
`, strings.Join(lines, "\n"), s.Port, in("host"), s.Key, mark, s.mark, s.Home), 0o600))
	t.Cleanup(func() {
		s.Stop(t)
		if t.Failed() {
			log, _ := os.ReadFile(s.log)
			t.Logf("sshd:\n%s", log)
		}
	})
	s.Run(t)
	return s
}

// Args returns the arguments of ssh that lead to the server.
func (s *Server) Args() []string { return []string{"-F", s.Config, Host} }

// Run runs the server again after Stop, at the same port.
func (s *Server) Run(t testing.TB) {
	t.Helper()
	log := must.Get(os.OpenFile(s.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600))(t)
	defer log.Close()
	cmd := exec.Command(program, "-D", "-e", "-f", s.conf)
	cmd.Stderr = log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	must.Do(t, tiedtest.Start(cmd, syscall.SIGTERM))
	s.cmd = cmd
	polltest.Check(t, func() error {
		c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", s.Port))
		if err != nil {
			return fmt.Errorf("sshd does not answer: %v", err)
		}
		return c.Close()
	})
}

// Stop kills the server, its connections and everything that was started through them, and returns when nothing
// of it is left.
func (s *Server) Stop(t testing.TB) {
	t.Helper()
	if s.cmd == nil {
		return
	}
	// A server that is stopped makes no connection that the scan does not see.
	must.Do(t, s.cmd.Process.Signal(syscall.SIGSTOP))
	s.Drop(t)
	must.Do(t, s.cmd.Process.Kill())
	s.cmd.Wait()
	s.cmd = nil
	s.Drop(t)
}

// Crash kills the server and its connections. What was started through them can continue.
func (s *Server) Crash(t testing.TB) {
	t.Helper()
	must.Do(t, s.cmd.Process.Signal(syscall.SIGSTOP))
	s.killAll(t, connection) // while they are known by their parent
	must.Do(t, s.cmd.Process.Kill())
	s.cmd.Wait()
	s.cmd = nil
}

// Cut kills the connections that the server has now. The server stays, and what was started through them can
// continue.
func (s *Server) Cut(t testing.TB) {
	t.Helper()
	for _, p := range must.Get(s.Processes())(t) {
		if connection(p) {
			p.Signal(syscall.SIGKILL) // an error: it has ended
		}
	}
}

// connection reports whether a process is a connection of the server: sshd, or sshd-session of OpenSSH 9.8 on.
func connection(p procfs.Process) bool { return strings.HasPrefix(p.Program, "sshd") }

// Drop kills the server's connections and everything that was started through them. The server stays.
func (s *Server) Drop(t testing.TB) {
	t.Helper()
	s.killAll(t, func(procfs.Process) bool { return true })
}

// killAll kills the processes that match until two scans in a row have found none.
func (s *Server) killAll(t testing.TB, match func(procfs.Process) bool) {
	t.Helper()
	empty := 0
	polltest.Check(t, func() error {
		found, err := s.Processes()
		found = slices.DeleteFunc(found, func(p procfs.Process) bool { return !match(p) })
		for _, p := range found {
			p.Signal(syscall.SIGKILL) // an error: it has ended, or the next scan finds it again
		}
		if empty++; err != nil || len(found) > 0 {
			empty = 0
		}
		if empty < 2 {
			return errors.Join(fmt.Errorf("processes of sshd remain: %v", found), err)
		}
		return nil
	})
}

// Processes returns the processes that descend from the server, without itself, or that bear its mark.
func (s *Server) Processes() (found []procfs.Process, err error) {
	all, err := procfs.All()
	if err != nil {
		return nil, err
	}
	parents := make(map[int]int, len(all))
	for _, p := range all {
		parents[p.PID] = p.Parent
	}
	server := 0
	if s.cmd != nil {
		server = s.cmd.Process.Pid
	}
	for _, p := range all {
		if p.Ended() || p.PID == server {
			continue
		}
		ours := false
		for pid := p.Parent; pid > 1 && !ours; pid = parents[pid] {
			ours = pid == server
		}
		if !ours {
			value, _, _ := procfs.LookupEnv(p.PID, mark) // an error: it has ended, or is another user's
			ours = value == s.mark
		}
		if ours {
			found = append(found, p.Process)
		}
	}
	return found, nil
}

// NewKey makes a key for ssh in a file, and returns the public one, which is also in the file with .pub.
func NewKey(t testing.TB, file string) (public string) {
	t.Helper()
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", file).CombinedOutput(); err != nil {
		t.Fatalf("making a key: %v: %s", err, out)
	}
	return string(must.Get(os.ReadFile(file + ".pub"))(t))
}

// shellOf returns the login shell of a user, or "" if it is unknown.
func shellOf(t testing.TB, name string) string {
	for line := range strings.Lines(string(must.Get(os.ReadFile("/etc/passwd"))(t))) {
		if f := strings.Split(strings.TrimSpace(line), ":"); f[0] == name && len(f) == 7 {
			return f[6]
		}
	}
	return ""
}

// freePort returns a port at which nothing listens. No connection gets it from the kernel, which takes those
// from 32768 on, so it stays free while the server is stopped.
func freePort(t testing.TB) int {
	for {
		port := 20000 + rand.N(12000)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		must.Do(t, err)
		l.Close()
		return port
	}
}
