package pyrepl_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"asyncrepl/internal/output"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// A stormJob is a kind of job that an interrupt may race the end of.
type stormJob struct {
	code   string // R is the round
	output string // on stdout, if it runs to its end
	status string // likewise
	result string // likewise
	asks   bool   // for one line
}

var stormJobs = map[string]stormJob{
	"expression": {code: "sum(range(20000))", result: "199990000"},
	"loop":       {code: "n = 0\nfor i in range(5000): n += i\nprint(n)", output: "12497500\n"},
	"sleep":      {code: "print(R); time.sleep(0.002); print(R)", output: "R\nR\n"},
	"await":      {code: "print(R); await asyncio.sleep(0.002); print(R)", output: "R\nR\n"},
	"gather": {code: "async def f(n):\n    await asyncio.sleep(0.001); return n\nprint(R, await asyncio.gather(*map(f, range(5))))",
		output: "R [0, 1, 2, 3, 4]\n"},
	"await, busy": {code: "async def f():\n    n = 0\n    for i in range(5000): n += i\n    return n\nprint(await f())", output: "12497500\n"},
	"own loop":    {code: "async def f(): await asyncio.sleep(0.001); print(R)\nasyncio.run(f())", output: "R\n"},
	"child":       {code: "print(R); print(subprocess.run(['true']).returncode)", output: "R\n0\n"},
	"pipe":        {code: "print(subprocess.run(['echo', 'R'], stdout=subprocess.PIPE, text=True).stdout)", output: "R\n\n"},
	"system":      {code: "print(R); print(os.system('true'))", output: "R\n0\n"},
	"fork":        {code: "pid = os.fork()\nif pid == 0: os._exit(3)\nprint(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))", output: "3\n"},
	"input":       {code: "print(R); print(repr(input('? ')))", output: "R\n? 'R'\n", asks: true},
	"readline":    {code: "print(R); print(repr(sys.stdin.readline()))", output: "R\n'R\\n'\n", asks: true},
	"C code":      {code: "print(R); print(len(zlib.compress(noise)) > 0); print(sorted(noise)[0])", output: "R\nTrue\n0\n"},
	"thread":      {code: "t = threading.Thread(target=time.sleep, args=(0.001,)); t.start(); t.join(); print(R)", output: "R\n"},
	"pool":        {code: "print(pool.submit(pow, 2, 10).result())", output: "1024\n"},
	"queue":       {code: "q = queue.Queue(); threading.Timer(0.001, q.put, (R,)).start(); print(q.get())", output: "R\n"},
	"flood":       {code: "for i in range(1500): print(i, 'R')", output: numbered(1500, "R")},
	"long lines":  {code: "for i in range(20): print(i, 'R' * 5000)", output: numbered(20, strings.Repeat("R", 5000))},
	"bytes":       {code: "for i in range(300): sys.stdout.buffer.write(b'%d R\\n' % i)\nNone", output: numbered(300, "R")},
	"exit":        {code: "print(R); sys.exit(3)", output: "R\n", status: "failed (exit 3; variables kept)"},
	"exception":   {code: "print(R); raise ValueError('R')", output: "R\n", status: "failed (ValueError: R)"},
	"deep":        {code: "def f(n): return n and 1 + f(n - 1)\nprint(f(300)); 1 / 0", output: "300\n", status: "failed (ZeroDivisionError: division by zero)"},
	"syntax":      {code: "def f(:", status: "failed (SyntaxError: invalid syntax)"},
	"finalizers":  {code: "class F:\n    def __del__(self): self.n = sum(range(50))\nfor i in range(300): F()\nprint(R)", output: "R\n"},
	"import":      {code: "sys.modules.pop('textwrap', None); sys.modules.pop('bdb', None); import textwrap, bdb; print(R)", output: "R\n"},
	"displayed":   {code: "[R] * 2000", result: "[" + strings.Repeat("R, ", 1999) + "R]"},
}

func numbered(n int, text string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintln(&b, i, text)
	}
	return b.String()
}

// Interrupts at random moments around the ends of jobs of every kind. Each hits its own job or
// none, the output is the beginning of what the job prints, and the session keeps all that it had.
func TestInterruptStorm(t *testing.T) {
	if testing.Short() {
		t.Skip("a storm")
	}
	t.Parallel()
	rounds, seed := jobstest.Storm(t, 60)
	rnd := rand.New(rand.NewPCG(seed, 0))
	b := newBench(t)
	b.want(`import asyncio, os, queue, subprocess, sys, threading, time, zlib
from concurrent.futures import ThreadPoolExecutor
pool = ThreadPoolExecutor(2)
noise = bytes(range(256)) * 100
child = subprocess.Popen(["sleep", "100000"])
ticks = 0
async def background():
    global ticks
    while True:
        ticks += 1
        await asyncio.sleep(0)
task = asyncio.create_task(background())
await asyncio.sleep(0)
kept = object(); same = kept`, "completed")
	var kinds []string
	for kind := range stormJobs {
		kinds = append(kinds, kind)
	}
	s := &storm{t: t, b: b, rnd: rnd, took: make(map[string]time.Duration), ends: make(map[string]int)}
	for round := range rounds {
		s.round(round, kinds[rnd.IntN(len(kinds))])
	}
	b.result("same is kept, task.done(), child.poll(), ticks > 0", "(True, False, None, True)")
	t.Logf("%v", s.ends)
}

type storm struct {
	t    *testing.T
	b    *bench
	rnd  *rand.Rand
	took map[string]time.Duration // by a job of that kind that was not interrupted, lately
	ends map[string]int
}

// round runs a job that is interrupted at some moment, and one behind it that is not.
func (s *storm) round(round int, kind string) {
	s.t.Helper()
	number := fmt.Sprint(round)
	fill := func(text string) string { return strings.ReplaceAll(text, "R", number) }
	spec := stormJobs[kind]
	begin := time.Now()
	j := s.b.start(fill(spec.code))
	next := s.b.start("print('after', " + number + "); same is kept, " + number)
	pause := time.NewTimer(time.Duration(s.rnd.Float64() * 1.2 * float64(s.took[kind])))
	var sending sync.WaitGroup
	if spec.asks {
		j.Await(context.Background())
		sending.Go(func() { j.Send(context.Background(), jobs.Input{Text: number, Line: true}) })
	}
	if s.took[kind] > 0 {
		select {
		case <-pause.C:
		case <-j.Done():
		}
		j.Stop(stop(jobs.Interrupt))
	}
	record := jobstest.End(s.t, j)
	sending.Wait()
	out, errs := jobstest.Stream(j, output.Stdout), jobstest.Stream(j, output.Stderr)
	want := spec.status
	if want == "" {
		want = "completed"
	}
	whole := fill(spec.output)
	ok := strings.HasPrefix(whole, out)
	text := record.Receipt.Text()
	if strings.Contains(errs, "KeyboardInterrupt\n\nDuring handling of the above") { // threading's locks stumble over one
		text = "cancelled (interrupted; variables kept)"
	}
	switch text {
	case fill(want), want + " (after an interrupt)": // that came too late
		s.took[kind] = max(time.Since(begin), 300*time.Microsecond)
		s.ends["ended"]++
		ok = ok && out == whole && record.Result == fill(spec.result)
	case "cancelled (interrupted; variables kept)":
		s.ends["interrupted"]++
		shown := strings.Contains(errs, "KeyboardInterrupt") || spec.status != "" && errs != "" // its report was interrupted, and done
		ok = ok && !record.HasResult && shown
	case "cancelled (before it ran)":
		s.ends["before it ran"]++
		ok = ok && out == ""
	default:
		ok = false
	}
	for _, ours := range []string{`File "<async-repl`, "'together'"} { // Python may complain of what it was interrupted in
		ok = ok && !strings.Contains(errs, ours)
	}
	if !ok {
		s.t.Fatalf("round %d, %s: %s, result %.100q, output %.2000q, want %.300q; errors %q", round, kind, record.Receipt.Text(), record.Result, out, whole, errs)
	}
	after := jobstest.End(s.t, next)
	if out := jobstest.Stream(next, output.Stdout); after.Result != "(True, "+number+")" || out != "after "+number+"\n" {
		s.t.Fatalf("round %d, after %s that %s: %s, result %q, output %q", round, kind, record.Receipt.Text(), after.Receipt.Text(), after.Result, out)
	}
}
