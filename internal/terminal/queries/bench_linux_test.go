package queries_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"asyncrepl/internal/output"
	"asyncrepl/internal/terminal/pump"
	"asyncrepl/internal/terminal/queries"
	"asyncrepl/internal/terminal/tty"
	"asyncrepl/internal/test/must"
)

const volume = 32 << 20 // bytes

var texts = map[string]string{
	"plain":    "2026-11-22 18:36:53 compiling a package of the program, as it does for some time\n",
	"coloured": "\x1b[32m2026-11-22\x1b[0m \x1b[1;34mcompiling\x1b[0m a \x1b[33mpackage\x1b[0m of the \x1b[38;5;208mprogram\x1b[0m\n",
}

// BenchmarkPump writes the output of a program on a terminal to a log, and looks for queries. Its
// floor is the same without the queries. Aim: 97 %, so at most 1.03x its time.
func BenchmarkPump(b *testing.B) {
	for name, text := range texts {
		b.Run(name, func(b *testing.B) {
			path := filepath.Join(b.TempDir(), "text")
			must.Do(b, os.WriteFile(path, []byte(strings.Repeat(text, volume/len(text))), 0o600))
			b.SetBytes(volume)
			var ours, theirs time.Duration
			for b.Loop() {
				theirs += show(b, path, false)
				ours += show(b, path, true)
			}
			b.ReportMetric(float64(ours)/float64(theirs), "x-floor")
		})
	}
}

// show returns how long a program takes to write a file to a terminal whose output goes to a log.
func show(b *testing.B, path string, answers bool) time.Duration {
	pty := must.Get(tty.Open(40, 120))(b)
	defer pty.Close()
	log := output.NewStore(output.Config{}).NewLog("1")
	defer log.Discard()
	sink := func(b []byte) { log.Write(output.TTY, b) }
	if answers {
		r := queries.New(pty, func() ([]int, error) { return nil, nil })
		defer r.Close()
		sink = func(b []byte) { r.Printed(log, log.Write(output.TTY, b), b) }
	}
	cmd := exec.Command("dd", "if="+path, "bs=64k", "status=none")
	cmd.Stdout = pty.Slave()
	p := pump.Shared(pty.Master(), sink)
	begin := time.Now()
	must.Do(b, cmd.Run())
	p.Close()
	return time.Since(begin)
}

// BenchmarkPrinted looks for queries in pieces as a terminal's pump reads them. Its floor writes
// them to a log in memory.
func BenchmarkPrinted(b *testing.B) {
	for name, text := range texts {
		b.Run(name, func(b *testing.B) {
			piece := []byte(strings.Repeat(text, 4095/len(text)))
			log := output.NewStore(output.Config{}).NewLog("1")
			defer log.Discard()
			pty := must.Get(tty.Open(40, 120))(b)
			defer pty.Close()
			r := queries.New(pty, func() ([]int, error) { return nil, nil })
			defer r.Close()
			const pieces = 1000
			b.SetBytes(int64(pieces * len(piece)))
			var ours, theirs time.Duration
			for b.Loop() {
				begin := time.Now()
				for range pieces {
					log.Write(output.TTY, piece)
				}
				middle := time.Now()
				for range pieces {
					r.Printed(log, 0, piece)
				}
				theirs += middle.Sub(begin)
				ours += time.Since(middle)
			}
			b.ReportMetric(float64(ours)/float64(theirs), "x-floor")
			b.ReportMetric(float64(ours.Nanoseconds())/float64(b.N*pieces), "ns/piece")
		})
	}
}

// BenchmarkAnswer is the time from a query for the cursor to its answer, for a program on a quiet
// machine. Aim: 5 ms.
func BenchmarkAnswer(b *testing.B) {
	for name, text := range map[string]string{"a short line": "x\r\n", "10 screens": strings.Repeat("a line of \x1b[1;31mcolour\x1b[m\r\n", 240)} {
		b.Run(name, func(b *testing.B) {
			x := newTerminal(b)
			x.mode(false, false)
			var waited, longest time.Duration
			for b.Loop() {
				x.write(text)
				x.pump.Drain()
				begin := time.Now()
				x.write("\x1b[6n")
				got := make([]byte, 100)
				for n := 0; n == 0 || got[n-1] != 'R'; {
					more, err := x.pty.Slave().Read(got[n:])
					if err != nil {
						b.Fatal(err)
					}
					n += more
				}
				d := time.Since(begin)
				waited, longest = waited+d, max(longest, d)
				b.StopTimer()
				time.Sleep(time.Second / queries.PerSecond) // more are not answered
				b.StartTimer()
			}
			b.ReportMetric(float64(waited.Microseconds())/float64(b.N), "µs/answer")
			b.ReportMetric(float64(longest.Microseconds()), "µs-longest")
		})
	}
}
