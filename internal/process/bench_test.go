//go:build linux

package process

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"asyncrepl/internal/terminal/pump"
	"asyncrepl/internal/terminal/tty"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/polltest"
)

// BenchmarkEcho does what a shell job does: start on a terminal, output, end, drain. Its floor is
// the same command run by os/exec on a terminal.
func BenchmarkEcho(b *testing.B) {
	b.Run("floor", func(b *testing.B) {
		for b.Loop() {
			pty, err := tty.Open(40, 120)
			if err != nil {
				b.Fatal(err)
			}
			cmd := exec.Command("/bin/bash", "-c", "echo hi")
			cmd.Env = testEnv
			cmd.Stdin, cmd.Stdout, cmd.Stderr = pty.Slave(), pty.Slave(), pty.Slave()
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
			if err := cmd.Start(); err != nil {
				b.Fatal(err)
			}
			var buf [len("hi\r\n")]byte
			if _, err := io.ReadFull(pty.Master(), buf[:]); err != nil {
				b.Fatal(err)
			}
			if err := cmd.Wait(); err != nil {
				b.Fatal(err)
			}
			pty.Close()
		}
	})
	for name, config := range map[string]Config{"process": {}, "process with guard": guarded()} {
		b.Run(name, func(b *testing.B) {
			o := must.Get(NewOwner(config))(b)
			defer o.Shutdown()
			for b.Loop() {
				pty, err := tty.Open(40, 120)
				if err != nil {
					b.Fatal(err)
				}
				h, err := o.Start(Spec{Argv: []string{"/bin/bash", "-c", "echo hi"}, Env: testEnv, TTY: pty, Mark: "job"})
				if err != nil {
					b.Fatal(err)
				}
				got := 0
				p := pump.Shared(pty.Master(), func(b []byte) { got += len(b) })
				h.Exit()
				p.Drain()
				if _, left, err := h.Settle(); left != nil || err != nil {
					b.Fatal("left", left)
				}
				pty.CloseSlave()
				<-p.Done()
				p.Close()
				pty.Close()
				if got != len("hi\r\n") {
					b.Fatalf("read %d bytes", got)
				}
			}
		})
	}
}

// BenchmarkShutdown ends 200 jobs of four processes each that ignore SIGTERM and SIGHUP. The
// server's exit waits for it, 350 ms at most. left/op counts the processes that remain then for the
// guard.
func BenchmarkShutdown(b *testing.B) {
	left := 0
	for b.Loop() {
		b.StopTimer()
		o, err := NewOwner(Config{})
		if err != nil {
			b.Fatal(err)
		}
		tag := tag()
		script := fmt.Sprintf("trap '' TERM HUP INT; for i in 1 2 3; do sleep %s & done; wait", tag)
		for i := range 200 {
			if _, err := o.Start(Spec{
				Argv: []string{"bash", "-c", script}, Env: testEnv, Files: make([]*os.File, 3), Mark: strconv.Itoa(i),
			}); err != nil {
				b.Fatal(err)
			}
		}
		grown(b, tag, 600)
		b.StartTimer()
		o.Shutdown()
		b.StopTimer()
		left += len(tagged(tag))
		reaper.set(o.scan).KillUntil(time.Now().Add(time.Minute))
		b.StartTimer()
	}
	b.ReportMetric(float64(left)/float64(b.N), "left/op")
}

// BenchmarkScan adopts and reaps orphans that have ended and that can't be attributed: the cost of
// one of 4,000 that come at once against one of 250, the floor.
func BenchmarkScan(b *testing.B) {
	for _, n := range []int{250, 4000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			o := newOwner(b)
			onTTY(b, o, "other", "read")
			for b.Loop() {
				b.StopTimer()
				reaper.scanning.Lock()
				_, err := o.Start(Spec{Argv: []string{"python3", "-S", "-c", fmt.Sprintf(`import os
for i in range(%d):
	if os.fork() == 0:
		os.setsid()
		os._exit(0)
`, n)}, Env: testEnv})
				if err != nil {
					b.Fatal(err)
				}
				polltest.Until(b, "the orphans", func() bool { pids, err := ownChildren(); return err == nil && len(pids) >= n })
				b.StartTimer()
				reaper.scanning.Unlock()
				reaper.scan()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/orphan")
		})
	}
}
