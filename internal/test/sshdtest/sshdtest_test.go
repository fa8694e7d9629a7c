//go:build linux

package sshdtest

import (
	"bufio"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/internal/test/must"
)

// Whatever a session leaves behind ends with the server, also if it has left its session.
func TestStopLeavesNothing(t *testing.T) {
	t.Parallel()
	s := Start(t)
	for range 2 {
		cmd := exec.Command("ssh", append(s.Args(), "echo $HOME; setsid sleep 1000 >/dev/null 2>&1 </dev/null & echo left; exec cat")...)
		in := must.Get(cmd.StdinPipe())(t)
		out := bufio.NewReader(must.Get(cmd.StdoutPipe())(t))
		must.Do(t, cmd.Start())
		lines := must.Get(out.ReadString('\n'))(t) + must.Get(out.ReadString('\n'))(t)
		if lines != s.Home+"\nleft\n" {
			t.Errorf("the session says %q", lines)
		}
		if found := must.Get(s.Processes())(t); len(found) < 3 {
			t.Errorf("a session, its shell and what was left behind are %v", found)
		}
		s.Stop(t)
		cmd.Wait()
		in.Close()
		if found := must.Get(s.Processes())(t); len(found) > 0 {
			t.Errorf("left: %v", found)
		}
		s.Run(t)
	}
	s.Drop(t)
	if out, err := exec.Command("ssh", append(s.Args(), "echo again")...).CombinedOutput(); err != nil || string(out) != "again\n" {
		t.Errorf("after Drop: %q, %v", out, err)
	}
}

// A line of the test comes before those of the package.
func TestLinesOfTheTestCount(t *testing.T) {
	t.Parallel()
	s := Start(t, "AuthorizedKeysFile "+filepath.Join(t.TempDir(), "none"))
	if out, err := exec.Command("ssh", append([]string{"-o", "BatchMode=yes"}, append(s.Args(), "true")...)...).CombinedOutput(); err == nil || !strings.Contains(string(out), "Permission denied (publickey)") {
		t.Errorf("without a key that it knows: %q, %v", out, err)
	}
}

// What a session has left behind continues after a crash, which ends the connections.
func TestCrashEndsConnections(t *testing.T) {
	t.Parallel()
	s := Start(t)
	for name, end := range map[string]func(testing.TB){"Cut": s.Cut, "Crash": s.Crash} {
		cmd := exec.Command("ssh", append(s.Args(), "setsid sleep 1000 >/dev/null 2>&1 </dev/null & echo $!; exec cat")...)
		in := must.Get(cmd.StdinPipe())(t)
		defer in.Close()
		out := bufio.NewReader(must.Get(cmd.StdoutPipe())(t))
		must.Do(t, cmd.Start())
		pid := must.Get(strconv.Atoi(strings.TrimSpace(must.Get(out.ReadString('\n'))(t))))(t)
		end(t)
		if err := cmd.Wait(); err == nil {
			t.Errorf("%s: ssh has ended without an error", name)
		}
		if p, err := procfs.Inspect(pid); err != nil || p.Ended() {
			t.Errorf("%s: what was left behind has ended: %v", name, err)
		}
		if s.cmd == nil {
			s.Run(t)
		}
	}
}
