package process

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/polltest"
)

// A process that was disowned belongs to no job, before and after it comes to us: the end of a job that could have
// started it leaves it alone, and so does the end of the owner. It is reaped when it ends.
func TestDisown(t *testing.T) {
	for _, late := range []bool{false, true} {
		t.Run(map[bool]string{false: "below another", true: "an orphan"}[late], func(t *testing.T) {
			o := must.Get(NewOwner(Config{}))(t)
			j := onTTY(t, o, "job", "read x") // the only job that an orphan can be from
			// As a carrier does, a child in our session starts a process in a session of its own.
			carrier := exec.Command("/bin/sh", "-c", "setsid sleep 1000 >/dev/null & echo $!; read x")
			in := must.Get(carrier.StdinPipe())(t)
			out := must.Get(carrier.StdoutPipe())(t)
			must.Do(t, carrier.Start())
			var line [32]byte
			n := must.Get(out.Read(line[:]))(t)
			pid := must.Get(strconv.Atoi(strings.TrimSpace(string(line[:n]))))(t)
			t.Cleanup(func() { syscall.Kill(pid, syscall.SIGKILL) })
			polltest.Until(t, "sleep to lead a session", func() bool {
				s, ok := inspect(pid)
				return ok && s.Session == pid && s.Program == "sleep"
			})
			leave := func() {
				in.Close()
				carrier.Wait() // its status says nothing
				polltest.Until(t, "sleep to come to us", func() bool {
					s, ok := inspect(pid)
					return ok && s.Parent == os.Getpid()
				})
				must.Do(t, reaper.scan())
			}
			isSleep := func(p procfs.Process) bool { return p.Program == "sleep" }
			if late {
				leave()
			}
			if Disown(pid, func(procfs.Process) bool { return false }) || Disown(os.Getppid(), isSleep) || !Disown(pid, isSleep) {
				t.Fatal("wrong process")
			}
			if !late {
				leave()
			}
			if c := o.Census(); len(c.Orphans) > 0 {
				t.Errorf("orphans: %v", c.Orphans)
			}
			end(t, j.Handle)
			o.Shutdown()
			if s, ok := inspect(pid); !ok || s.Ended() {
				t.Fatal("it has ended with its owner")
			}
			other := must.Get(NewOwner(Config{}))(t)
			t.Cleanup(other.Shutdown)
			beside := onTTY(t, other, "beside", "read x")
			syscall.Kill(pid, syscall.SIGKILL)
			polltest.Until(t, "sleep to be reaped", func() bool {
				_, ok := inspect(pid)
				return !ok
			})
			end(t, beside.Handle)
		})
	}
}
