//go:build linux

package procfs

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/polltest"
)

func TestClockStandsStillWhileAllSleep(t *testing.T) {
	cmd := exec.Command("cat")
	in := must.Get(cmd.StdinPipe())(t)
	out := must.Get(cmd.StdoutPipe())(t)
	must.Do(t, cmd.Start())
	defer cmd.Wait()
	defer in.Close()
	pid := cmd.Process.Pid
	asleep := func() {
		t.Helper()
		polltest.Until(t, "cat to sleep", func() bool { return must.Get(Inspect(pid))(t).State == 'S' })
	}
	asleep()
	clock := clock{pid: pid}
	thread := must.Get(NewThreadClock(pid, pid))(t)
	both := map[string]func() (bool, error){"process": clock.ran, "thread": thread.Ran}
	for _, ran := range both {
		ran()
	}
	for range 20 {
		for name, has := range both {
			if ran, err := has(); ran || err != nil {
				t.Fatalf("the %s's clock: %t, %v while it sleeps", name, ran, err)
			}
		}
		in.Write([]byte("x"))
		io.ReadFull(out, make([]byte, 1))
		asleep()
		for name, has := range both {
			if ran, err := has(); !ran || err != nil {
				t.Fatalf("the %s's clock: %t, %v after it has run", name, ran, err)
			}
		}
	}
}

func TestClocksFollowATree(t *testing.T) {
	cmd := start(t, `sleep 1000 & sleep 1000 & echo; wait`)
	list := func() ([]int, error) {
		all := []int{cmd.Process.Pid}
		for i := 0; i < len(all); i++ {
			pids, _ := Children(all[i], 0)
			all = append(all, pids...)
		}
		return all, nil
	}
	sleeping := func(n int) {
		polltest.Until(t, fmt.Sprintf("%d processes that sleep", n), func() bool {
			pids, _ := list()
			for _, pid := range pids {
				if s, err := Inspect(pid); err != nil || s.State != 'S' || len(pids) != n {
					return false
				}
			}
			return true
		})
	}
	var c Clocks
	if c.Follow(func() ([]int, error) { return nil, nil }); c.Complete() || c.Moved() {
		t.Errorf("without a process: complete %t", c.Complete())
	}
	sleeping(3)
	if pids, _ := c.Follow(list); len(pids) != 3 || c.Threads() != 3 || !c.Complete() {
		t.Errorf("follows %v with %d threads, complete %t; want 3", pids, c.Threads(), c.Complete())
	}
	before := c.Used()
	if c.Moved() || c.Used() != before {
		t.Errorf("moved while all sleep, and used %v", c.Used()-before)
	}
	all, _ := list()
	syscall.Kill(all[2], syscall.SIGKILL)
	polltest.Until(t, "the end of one to be noticed", c.Moved)

	for name, c := range map[string]struct {
		most     int // processes; each listing has one more
		complete bool
	}{"grows once": {2, true}, "grows each time": {3, false}} {
		var grown Clocks
		lists := 0
		grown.Follow(func() ([]int, error) { lists++; return []int{os.Getpid(), all[0], all[1]}[:min(lists, c.most)], nil })
		if lists != 3 || grown.Complete() != c.complete {
			t.Errorf("a tree that %s was listed %d times, complete %t; want 3 times, %t", name, lists, grown.Complete(), c.complete)
		}
	}
}

// The clock of the only thread of a process that sleeps is that of the process.
func TestThreadTime(t *testing.T) {
	cmd := start(t, `echo; exec cat`)
	pid := cmd.Process.Pid
	polltest.Until(t, "cat to sleep", func() bool {
		s, err := Inspect(pid)
		return err == nil && s.Program == "cat" && s.State == 'S'
	})
	all, own := must.Get(CPUTime(pid))(t), must.Get(ThreadTime(pid, pid))(t)
	if own != 0 && own != all { // 0: the kernel keeps no account
		t.Errorf("the thread has used %v, and its process %v", own, all)
	}
	if used, err := ThreadTime(pid, 1); err == nil {
		t.Errorf("a thread of another process has used %v", used)
	}
}

// The clocks of a tree add up, those of its new processes included.
func TestClocksAddUp(t *testing.T) {
	var c Clocks
	c.Follow(func() ([]int, error) { return []int{os.Getpid()}, nil })
	const burnt = 20 * time.Millisecond
	own, used := c.known[0].last, c.Used()
	polltest.Until(t, "some CPU time", func() bool { c.Moved(); return c.Used()-used >= burnt })
	if c.Used()-used != c.known[0].last-own {
		t.Errorf("used %v, and the only clock shows %v", c.Used()-used, c.known[0].last-own)
	}
	parent := must.Get(CPUTime(os.Getppid()))(t)
	used = c.Used()
	if c.Follow(func() ([]int, error) { return []int{os.Getpid(), os.Getppid()}, nil }); c.Used()-used < parent {
		t.Errorf("a process that had used %v adds %v", parent, c.Used()-used)
	}
}
