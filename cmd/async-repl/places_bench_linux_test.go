package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"asyncrepl/internal/mcp/client"
	"asyncrepl/internal/place/carry"
	"asyncrepl/internal/place/door"
	"asyncrepl/internal/place/far"
	"asyncrepl/internal/place/stream"
	"asyncrepl/internal/process/processtest"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/polltest"
	"asyncrepl/internal/test/slurmtest"
	"asyncrepl/internal/test/sshdtest"
)

// A benchPlace is a machine that a server of a benchmark reaches, and how it gets there.
type benchPlace struct {
	b         *testing.B
	dir       string         // its files
	workspace string         // of its jobs
	keys      map[string]any // of the place, in the file of places
	words     []string       // the carrier, to which a command is appended; nil: it depends on the allocation
	shell     bool           // the carrier gives its words to a shell
	env       []string       // of the server
}

// newBenchPlace returns a machine that a carrier of a kind reaches: exec, ssh or slurm.
func newBenchPlace(b *testing.B, kind string) *benchPlace {
	b.Helper()
	overStdio(b, "the carrier is a pipe")
	p := &benchPlace{b: b, dir: must.Get(os.MkdirTemp("/tmp", "place"))(b), workspace: b.TempDir()}
	b.Cleanup(func() { os.RemoveAll(p.dir) })
	// dial and placed inherit these from the shell that runs setup.
	setup := fmt.Sprintf("export TMPDIR=%[1]s XDG_CACHE_HOME=%[1]s XDG_STATE_HOME=%[1]s", p.dir)
	p.keys = map[string]any{"workspace": p.workspace, "python": realPython(), "setup": setup}
	switch kind {
	case "exec":
		p.words = []string{"/usr/bin/env"}
		p.keys["exec"] = p.words
	case "ssh":
		args := sshdtest.Start(b).Args()
		p.words, p.shell = carry.SSH(args), true
		p.keys["ssh"] = args
	case "slurm":
		p.env = []string{"SLURM_CONF=" + slurmtest.Start(b).Conf}
		p.keys["slurm"] = []string{"--partition=short"}
	}
	b.Cleanup(func() {
		for _, pid := range p.processes(placedCommand) {
			syscall.Kill(pid, syscall.SIGKILL)
			processtest.Gone(b, pid)
		}
	})
	return p
}

// processes returns the processes of a command of ours on the machine.
func (p *benchPlace) processes(command string) (pids []int) {
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range lines {
		line, err := os.ReadFile(path) // empty once it has ended
		if err != nil || !bytes.Contains(line, []byte("\x00"+command+"\x00")) {
			continue
		}
		env, err := os.ReadFile(filepath.Join(filepath.Dir(path), "environ"))
		if err == nil && bytes.Contains(env, []byte("TMPDIR="+p.dir+"\x00")) {
			pids = append(pids, must.Get(strconv.Atoi(filepath.Base(filepath.Dir(path))))(p.b))
		}
	}
	return pids
}

// command returns a line of shell that the carrier runs on the machine.
func (p *benchPlace) command(line string) *exec.Cmd {
	words := slices.Clone(p.words)
	if p.shell {
		words = append(words, line)
	} else {
		words = append(words, "/bin/sh", "-c", line)
	}
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Env = append(os.Environ(), p.env...)
	return cmd
}

// shippedOnce is the program as it is shipped.
var shippedOnce struct {
	sync.Once
	path string
}

// server starts a server that has the place, under some names.
func (p *benchPlace) server(names ...string) *started {
	p.b.Helper()
	shippedOnce.Do(func() {
		shippedOnce.path = filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), "shipped") // it is removed after all benchmarks
		must.Do(p.b, os.Rename(ship(p.b), shippedOnce.path))
	})
	places := make(map[string]any)
	for _, name := range names {
		places[name] = p.keys
	}
	file := filepath.Join(p.dir, "places.json")
	must.Do(p.b, os.WriteFile(file, must.Get(json.Marshal(map[string]any{"places": places}))(p.b), 0o600))
	s := prepare(p.b, append([]string{"REPL_PYTHON=" + realPython(), "REPL_PLACES=" + file}, p.env...)...)
	s.cmd.Path, s.cmd.Args = shippedOnce.path, []string{shippedOnce.path}
	s.open()
	p.b.Cleanup(func() { // before the place is removed
		s.stop()
		s.exit()
	})
	return s
}

// socket connects to the engine at the place, without a carrier.
func (p *benchPlace) socket() *far.Client {
	b := p.b
	b.Helper()
	var key string
	files, _ := filepath.Glob(p.dir + "/async-repl-*/place-*.lock")
	for _, file := range files {
		key = strings.TrimSuffix(strings.TrimPrefix(filepath.Base(file), "place-"), ".lock")
	}
	d := must.Get(door.Open(p.dir, key))(b)
	conn, g, err := d.Find(b.Context(), door.Search{})
	must.Do(b, err)
	h := must.Get(far.Connect(b.Context(), conn))(b)
	b.Cleanup(func() {
		h.Close()
		conn.Close()
	})
	return far.NewClient(h.RoundTrip, g.Start)
}

// atSocket runs a job by a client of the engine, to the end of its life.
func (p *benchPlace) atSocket(c *far.Client, tool string, args ...any) {
	id := ulid.Make().String()
	r, body, err := c.Start(p.b.Context(), id, tool, must.Get(json.Marshal(pairs(args)))(p.b), false, stream.Position{Quick: time.Second})
	must.Do(p.b, err)
	defer body.Close()
	for err == nil {
		_, err = r.Next()
	}
	if err != io.EOF {
		p.b.Fatal(err)
	}
}

// inTurn measures several operations several times, each time in another order, so that all see the same machine. It
// returns what each took, in the order of the rounds.
func inTurn(rounds int, operations ...func() time.Duration) [][]time.Duration {
	took := make([][]time.Duration, len(operations))
	for range rounds {
		for _, i := range rand.Perm(len(operations)) {
			took[i] = append(took[i], operations[i]())
		}
	}
	return took
}

// medianTime makes a measured operation of one that is called several times; the result is the median.
func medianTime(calls int, call func()) func() time.Duration {
	return func() time.Duration {
		took := make([]time.Duration, calls)
		for i := range took {
			begin := time.Now()
			call()
			took[i] = time.Since(begin)
		}
		return median(took)
	}
}

// reportRatios reports the lower quartile and the median of the ratios of what was measured in the same rounds, and
// the median in milliseconds.
func reportRatios(b *testing.B, unit string, ours, floor []time.Duration) {
	ratios := make([]float64, len(ours))
	for i := range ours {
		ratios[i] = float64(ours[i]) / float64(floor[i])
	}
	slices.Sort(ratios)
	b.ReportMetric(ratios[len(ratios)/4], unit+"-lower-quartile")
	b.ReportMetric(ratios[len(ratios)/2], unit+"-median")
	b.ReportMetric(float64(median(slices.Clone(ours)))/1e6, "ms")
}

// succeed calls a tool whose job ends well.
func (s *started) succeed(tool string, args ...any) client.Reply {
	s.t.Helper()
	r := s.do(tool, args...)
	if r.Header("Status") != "completed" {
		s.t.Fatal(r)
	}
	return r
}

// carriersOfBenchmarks are the kinds of places that the benchmarks measure.
var carriersOfBenchmarks = []string{"exec", "ssh", "slurm"}

// Aim: 1.3x of the same at the far engine's own socket, plus an echo through the carrier. x-aim is the ratio to that
// sum. The call goes through the server here, too; x-here is the ratio to the same call without a place.
func BenchmarkPlaceAssign(b *testing.B) {
	for _, kind := range carriersOfBenchmarks {
		b.Run(kind, func(b *testing.B) {
			p := newBenchPlace(b, kind)
			s := p.server("far")
			s.succeed("execute_python", "code", "x=1", "on", "far", "wait_seconds", 60)
			s.succeed("execute_python", "code", "x=1", "wait_seconds", 60)
			p.inAllocation(s.do("execute_python", "code", "x=1", "session", "far"))
			c := p.socket()
			p.atSocket(c, "execute_python", "code", "x=1", "session", "direct")
			echo := p.command("exec cat")
			in, out := must.Get(echo.StdinPipe())(b), must.Get(echo.StdoutPipe())(b)
			must.Do(b, echo.Start())
			defer echo.Wait()
			defer in.Close()
			lines := bufio.NewReader(out)
			back := func() {
				must.Get(in.Write([]byte("x=1\n")))(b)
				must.Get(lines.ReadString('\n'))(b)
			}
			back()
			for b.Loop() {
				took := inTurn(pairedBlocks,
					medianTime(callsPerBlock, func() { s.succeed("execute_python", "code", "x=1", "session", "far") }),
					medianTime(callsPerBlock, func() { p.atSocket(c, "execute_python", "code", "x=1", "session", "direct") }),
					medianTime(callsPerBlock, back),
					medianTime(callsPerBlock, func() { s.succeed("execute_python", "code", "x=1") }))
				aims := make([]time.Duration, pairedBlocks)
				for i := range aims {
					aims[i] = took[1][i]*13/10 + took[2][i]
				}
				reportRatios(b, "x-here", took[0], took[3])
				reportRatios(b, "x-aim", took[0], aims)
				b.ReportMetric(float64(median(took[1]))/1e6, "ms-socket")
				b.ReportMetric(float64(median(took[2]))/1e6, "ms-echo")
				b.ReportMetric(float64(median(took[3]))/1e6, "ms-here")
			}
		})
	}
}

// inAllocation makes the carrier reach the allocation that a reply names, if the place has one.
func (p *benchPlace) inAllocation(r client.Reply) {
	if p.keys["slurm"] == nil {
		return
	}
	job := regexp.MustCompile(`Slurm job (\d+)`).FindStringSubmatch(r.Header("Place"))
	if job == nil {
		p.b.Fatalf("no allocation: %s", r)
	}
	p.words = []string{"srun", "-u", "--overlap", "--export=NONE", "--jobid=" + job[1]}
}

// Aim: the carrier with true, plus 100 ms. The program is there, and the engine is not.
func BenchmarkPlaceFirstAnswer(b *testing.B) {
	for _, kind := range []string{"exec", "ssh"} {
		b.Run(kind, func(b *testing.B) {
			p := newBenchPlace(b, kind)
			first := func() time.Duration {
				s := p.server("far")
				begin := time.Now()
				s.succeed("execute_command_async", "command", "echo hi", "on", "far", "wait_seconds", 60)
				d := time.Since(begin)
				s.stop()
				s.exit()
				polltest.Until(b, "the engine to end", func() bool { return len(p.processes(placedCommand)) == 0 })
				return d
			}
			first() // brings the program
			for b.Loop() {
				took := inTurn(pairedBlocks, first, medianTime(1, func() { must.Do(b, p.command("exec true").Run()) }))
				over := make([]time.Duration, pairedBlocks)
				for i := range over {
					over[i] = took[0][i] - took[1][i]
				}
				slices.Sort(over)
				b.ReportMetric(float64(over[len(over)/4])/1e6, "ms-over-floor-lower-quartile")
				b.ReportMetric(float64(over[len(over)/2])/1e6, "ms-over-floor-median")
				b.ReportMetric(float64(median(took[0]))/1e6, "ms")
			}
		})
	}
}

// Aim: 1.3x of the same here. x-cpu is the ratio of the processor times of the servers, without the jobs themselves.
func BenchmarkPlaceManyJobs(b *testing.B) {
	const many = 300
	p := newBenchPlace(b, "exec")
	s := p.server("far")
	s.succeed("execute_command_async", "command", "true", "on", "far", "wait_seconds", 60)
	s.succeed("execute_command_async", "command", "true", "wait_seconds", 60)
	servers := append(p.processes(placedCommand), family(s.cmd.Process.Pid)...)
	var cpu [2]time.Duration
	run := func(which int, more ...any) func() time.Duration {
		return func() time.Duration {
			for _, pid := range servers {
				cpu[which] -= processorTime(b, pid)
			}
			begin := time.Now()
			started := make([]*client.Pending, many)
			for i := range started {
				started[i] = must.Get(s.Start("execute_command_async", pairs(append(more, "command", "sleep 1", "wait_seconds", 100))))(b)
			}
			for _, call := range started {
				if r := must.Get(call.Reply(s.ctx()))(b); r.Header("Status") != "completed" {
					b.Fatal(r)
				}
			}
			d := time.Since(begin)
			for _, pid := range servers {
				cpu[which] += processorTime(b, pid)
			}
			return d
		}
	}
	for b.Loop() {
		took := inTurn(5, run(0, "on", "far"), run(1))
		reportRatios(b, "x-here", took[0], took[1])
		b.ReportMetric(float64(cpu[0])/float64(cpu[1]), "x-cpu")
		b.ReportMetric(float64(median(took[1]))/1e6, "ms-here")
	}
}

// Aims, in percent of cat through the carrier: 45 over ssh, 75 over srun.
func BenchmarkPlaceOutput(b *testing.B) {
	for _, kind := range carriersOfBenchmarks {
		b.Run(kind, func(b *testing.B) {
			size := 300 << 20
			if testing.Short() {
				size = 64 << 20
			}
			if kind == "slurm" { // srun -u carries a few megabytes a second
				size /= 16
			}
			p := newBenchPlace(b, kind)
			file := filepath.Join(p.dir, "output")
			must.Do(b, os.WriteFile(file, bytes.Repeat([]byte("0123456789abcde\n"), size/16), 0o600))
			s := p.server("far")
			cat := fmt.Sprintf("import subprocess; subprocess.run(['cat', %q])", file)
			s.succeed("execute_python", "code", "x=1", "on", "far", "wait_seconds", 60)
			s.succeed("execute_python", "code", "x=1", "wait_seconds", 60)
			p.inAllocation(s.do("execute_python", "code", "x=1", "session", "far"))
			for b.Loop() {
				took := inTurn(5,
					medianTime(1, func() { s.succeed("execute_python", "code", cat, "session", "far", "wait_seconds", 100) }),
					medianTime(1, func() {
						cmd := p.command("exec cat " + file)
						out := must.Get(cmd.StdoutPipe())(b)
						must.Do(b, cmd.Start())
						n := must.Get(io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{out}, make([]byte, 64<<10)))(b)
						must.Do(b, cmd.Wait())
						if int(n) != size {
							b.Fatalf("%d bytes came", n)
						}
					}),
					medianTime(1, func() { s.succeed("execute_python", "code", cat, "wait_seconds", 100) }))
				var percents []float64
				for i := range took[0] {
					percents = append(percents, 100*float64(took[1][i])/float64(took[0][i]))
				}
				slices.Sort(percents)
				b.ReportMetric(percents[len(percents)*3/4], "percent-of-cat-upper-quartile")
				b.ReportMetric(percents[len(percents)/2], "percent-of-cat-median")
				reportRatios(b, "x-here", took[0], took[2])
			}
		})
	}
}

// Aim: 1.1x of the status of a job here, from the second call on.
func BenchmarkPlacePaused(b *testing.B) {
	p := newBenchPlace(b, "exec")
	s := p.server("far")
	there := s.do("execute_command_async", "command", "sleep 1000", "on", "far").Header("Job ID")
	here := s.do("execute_command_async", "command", "sleep 1000").Header("Job ID")
	engine := p.processes(placedCommand)[0]
	must.Do(b, syscall.Kill(engine, syscall.SIGSTOP))
	defer syscall.Kill(engine, syscall.SIGCONT)
	s.do("check_job_status", "job_id", there)
	for b.Loop() {
		took := inTurn(pairedBlocks,
			medianTime(callsPerBlock, func() { s.do("check_job_status", "job_id", there) }),
			medianTime(callsPerBlock, func() { s.do("check_job_status", "job_id", here) }))
		reportRatios(b, "x-floor", took[0], took[1])
	}
}

// Aims: no call is slower than in a server without places, and the server takes 1 % of a processor, once it tries
// every place less often than at first. The links of 50 places, each with a job, are lost and can't be opened.
func BenchmarkPlacesOutOfReach(b *testing.B) {
	const many = 50
	p := newBenchPlace(b, "ssh") // engines of exec would be below the server, which watches all that is below it
	barrier := filepath.Join(p.dir, "barrier")
	way := filepath.Join(p.dir, "way")
	must.Do(b, os.WriteFile(way, []byte("#!/bin/sh\n[ ! -e "+barrier+" ] || exit 1\nexec \"$@\"\n"), 0o700))
	delete(p.keys, "ssh")
	p.keys["exec"] = append([]string{way}, p.words...)
	names := make([]string, many)
	for i := range names {
		names[i] = fmt.Sprint("far", i)
	}
	s, floor := p.server(names...), startServer(b)
	for _, name := range names {
		s.do("execute_command_async", "command", "sleep 1000", "on", name, "wait_seconds", 0)
		floor.do("execute_command_async", "command", "sleep 1000", "wait_seconds", 0)
	}
	polltest.Until(b, "all jobs to run", func() bool { return strings.Count(string(s.do("list_jobs", "limit", many)), "running") >= many })
	s.succeed("execute_python", "code", "x=1", "wait_seconds", 60)
	floor.succeed("execute_python", "code", "x=1", "wait_seconds", 60)
	must.Do(b, os.WriteFile(barrier, nil, 0o600))
	polltest.Until(b, "all links to be lost", func() bool {
		for _, pid := range p.processes(dialCommand) {
			syscall.Kill(pid, syscall.SIGKILL) // an error: it has ended
		}
		return strings.Count(string(s.do("server_status")), "exit status 1") >= many
	})
	engine := s.engine()
	for b.Loop() {
		const window = 10 * time.Second
		for _, unit := range []string{"percent-cpu-at-first", "percent-cpu-then", "percent-cpu"} {
			used := processorTime(b, engine)
			time.Sleep(window)
			b.ReportMetric(100*float64(processorTime(b, engine)-used)/float64(window), unit)
		}
		for tool, args := range map[string][]any{"execute_python": {"code", "x=1"}, "list_jobs": nil} {
			took := inTurn(pairedBlocks, medianTime(callsPerBlock, func() { s.do(tool, args...) }), medianTime(callsPerBlock, func() { floor.do(tool, args...) }))
			reportRatios(b, "x-floor-"+tool, took[0], took[1])
		}
	}
}
