package waiting

import (
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/internal/kernel/sockdiag"
	"asyncrepl/internal/terminal/tty/ttytest"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/polltest"
)

// BenchmarkTick measures the cost of an idle job at each tick.
func BenchmarkTick(b *testing.B) {
	p := start(b, []string{"sleep", "1000"})
	waitState(b, p, "S")
	var c procfs.Clocks
	c.Follow(p.List)
	for b.Loop() {
		if c.Moved() {
			b.Fatal("moved")
		}
	}
}

// BenchmarkScan scans one process.
func BenchmarkScan(b *testing.B) {
	for name, argv := range map[string][]string{"idle": {"sleep", "1000"}, "waiting": {"cat"}} {
		b.Run(name, func(b *testing.B) {
			p := start(b, argv)
			waitState(b, p, "S")
			tree := p.Tree()
			var c procfs.Clocks
			for b.Loop() {
				c.Moved()
				c.Follow(func() ([]int, error) { return tree, nil })
				if _, ok := scanOnce(p.PTY, tree); ok != (name == "waiting") {
					b.Fatal(ok)
				}
			}
		})
	}
}

// BenchmarkCensus reads which terminals all processes of the system have open. Its floor lists the
// processes.
func BenchmarkCensus(b *testing.B) {
	b.Run("floor", func(b *testing.B) {
		for b.Loop() {
			procfs.All()
		}
	})
	b.Run("census", func(b *testing.B) {
		for b.Loop() {
			takeCensus()
		}
	})
	all := must.Get(procfs.All())(b)
	b.Logf("%d processes", len(all))
}

// BenchmarkThreads scans a process with 30 threads of which one waits for the terminal, alone and
// beside a connection to another process of the job. Its floor reads once the files of /proc, and
// makes the other calls, without which a scan is not possible.
func BenchmarkThreads(b *testing.B) {
	for name, code := range map[string]string{
		"alone": `select.select([0], [], [])`,
		"with a TCP peer": `
listener = socket.create_server(("127.0.0.1", 0))
a = socket.create_connection(listener.getsockname()); c = listener.accept()[0]
listener.close()
pid = os.fork()
if not pid: a.close(); c.recv(1)
c.close()
select.select([0, a], [], [])`,
	} {
		p := start(b, []string{"python3", "-c", `
import os, select, socket, threading, time
for i in range(29): threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
` + code})
		var tree []int
		polltest.Until(b, "the wait", func() bool {
			tree = p.Tree()
			_, ok := scanOnce(p.PTY, tree)
			tids, _ := procfs.Threads(p.PID)
			return ok && len(tids) == 30
		})
		b.Run(name+"/floor", func(b *testing.B) {
			for b.Loop() {
				readOnce(b, tree, len(tree) > 1)
			}
		})
		b.Run(name+"/scan", func(b *testing.B) {
			for b.Loop() {
				if _, ok := scanOnce(p.PTY, tree); !ok {
					b.Fatal("not seen")
				}
			}
		})
	}
}

// readOnce reads the call of each thread of the processes, the links of their descriptors, and if
// peers is set the kernel's table of connections.
func readOnce(b *testing.B, tree []int, peers bool) {
	for _, pid := range tree {
		tids, err := procfs.Threads(pid)
		if err != nil {
			b.Fatal(err)
		}
		for _, tid := range tids {
			var buf [256]byte
			if _, err := procfs.ReadStart(procfs.TaskPath(pid, tid, "syscall"), buf[:]); err != nil {
				b.Fatal(err)
			}
		}
		if !peers {
			continue
		}
		fds, err := procfs.Descriptors(pid, pid)
		if err != nil {
			b.Fatal(err)
		}
		for _, fd := range fds {
			var buf [128]byte
			unix.Readlink(procfs.TaskPath(pid, pid, "fd/"+strconv.Itoa(fd)), buf[:])
		}
	}
	if peers {
		if _, err := sockdiag.TCP(unix.AF_INET, sockdiag.Established); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkIdleJobs measures the share of one processor that watching 500 jobs takes. Its floor,
// bare, reads the clock of each at every tick and does nothing else.
func BenchmarkIdleJobs(b *testing.B) {
	const jobs = 500
	b.Run("bare", func(b *testing.B) {
		all := make([]int, jobs)
		for i := range all {
			all[i] = start(b, []string{"sleep", "1000"}).PID
		}
		ticks := time.NewTicker(tickTime)
		defer ticks.Stop()
		share(b, func() {
			for range restTime / tickTime {
				<-ticks.C
				for i := range all {
					if _, err := procfs.CPUTime(all[i]); err != nil {
						b.Fatal("no clock")
					}
				}
			}
		})
	})
	for name, waiting := range map[string]int{"idle": 0, "half of them waiting": jobs / 2, "waiting": jobs} {
		for _, piped := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/piped=%t", name, piped), func(b *testing.B) {
				var reported []<-chan change
				for i := range jobs {
					argv := "sleep 1000"
					if i < waiting {
						argv = "cat"
					}
					if piped {
						p, pipe := startPiped(b, "exec "+argv)
						reported = append(reported, p.watchFrom(b, pipe))
					} else {
						reported = append(reported, start(b, strings.Fields(argv)).watch(b))
					}
				}
				for _, c := range reported[:waiting] {
					nextWaiting(b, c)
				}
				share(b, func() { <-time.After(restTime) })
			})
		}
	}
}

// share reports what share of one processor this process uses while f runs again and again.
func share(b *testing.B, f func()) {
	var used, wall time.Duration
	for b.Loop() {
		began, before := time.Now(), processorTime(b)
		f()
		used += processorTime(b) - before
		wall += time.Since(began)
	}
	b.ReportMetric(100*used.Seconds()/wall.Seconds(), "%cpu")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkEvidence measures the time from a program's last instruction before its read to the
// report. aloud: it has just printed a prompt; silent: it has slept, and only its clock shows that
// it runs; asks: it reads for a tenth of a second, again and again, as jshell does; polls: it looks
// for input every 10 ms, as dialog does; beside: another of its threads works for 0.3 s more;
// crowd: another process of the job computes and prints.
func BenchmarkEvidence(b *testing.B) {
	const prompt = `os.write(1, b"? ")`
	for name, c := range map[string]struct{ setup, before, read string }{
		"aloud":  {"", prompt, `os.read(0, 100)`},
		"silent": {"", `time.sleep(0.3 + n % 13 / 100)`, `os.read(0, 100)`},
		"asks": {`
m = termios.tcgetattr(0); m[3] &= ~termios.ICANON; m[6][termios.VMIN] = 0; m[6][termios.VTIME] = 1
termios.tcsetattr(0, termios.TCSANOW, m)`, prompt, `while not os.read(0, 100): pass`},
		"polls": {"", prompt, `
    while not select.select([0], [], [], 0.01)[0]: pass
    os.read(0, 100)`},
		"beside": {`
def work():
    end = time.monotonic() + 0.3
    while time.monotonic() < end: pass`, prompt + `; threading.Thread(target=work).start()`, `os.read(0, 100)`},
		"crowd": {`
if not os.fork():
    while True:
        for _ in range(100000): pass
        os.write(1, b".")`, prompt, `os.read(0, 100)`},
	} {
		b.Run(name, func(b *testing.B) {
			r, w := must.Get2(os.Pipe())(b)
			defer r.Close()
			p := start(b, []string{"python3", "-c", `
import os, select, termios, threading, time
` + c.setup + `
for n in range(1000000):
    ` + c.before + `
    os.write(3, time.clock_gettime_ns(time.CLOCK_MONOTONIC).to_bytes(8, "little"))
    ` + c.read + `
`}, w)
			w.Close()
			reported := p.watch(b)
			var took []time.Duration
			for b.Loop() {
				nextWaiting(b, reported)
				now := monotonic(b)
				var then [8]byte
				if _, err := r.Read(then[:]); err != nil {
					b.Fatal(err)
				}
				took = append(took, now-time.Duration(binary.LittleEndian.Uint64(then[:])))
				p.Send(b, "\n")
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2])/1e6, "ms-median")
			b.ReportMetric(float64(took[len(took)-1])/1e6, "ms-max")
			b.ReportMetric(0, "ns/op")
		})
	}
}

func waitState(b *testing.B, p program, want string) {
	b.Helper()
	polltest.Until(b, "state "+want, func() bool { return ttytest.State(p.PID) == want })
}

func monotonic(b *testing.B) time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		b.Fatal(err)
	}
	return time.Duration(now.Nano())
}

// processorTime returns the CPU time of this process.
func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
