package main

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/internal/test/polltest"
	"asyncrepl/jobs/jobstest"
)

// stormRounds is the number of rounds of a storm, one for each ending. In each round, a server with
// random trees ends at a random moment. A seed repeats the choices of a round, but not its timing.
const stormRounds = 9

// treeScript grows a tree word by word: each process obeys its word and passes the others on.
const treeScript = `tag=$1 word=$2
shift 2
case $word in
fan)     bash "$0" "$tag" "$@" & exec bash "$0" "$tag" "$@" ;;
child)   bash "$0" "$tag" "$@" & wait ;;
group)   set -m; bash "$0" "$tag" "$@" & wait ;;
double)  (bash "$0" "$tag" "$@" &) ;;
nohup)   exec nohup bash "$0" "$tag" "$@" > /dev/null 2>&1 ;;
setsid)  exec setsid bash "$0" "$tag" "$@" ;;
closed)  exec bash "$0" "$tag" "$@" <&- >&- 2>&- ;;
bare)    exec env -i PATH="$PATH" bash "$0" "$tag" "$@" ;;
deaf)    trap '' TERM HUP INT QUIT; exec bash "$0" "$tag" "$@" ;;
catches) trap : TERM HUP INT; bash "$0" "$tag" "$@" & while :; do sleep 0.1; done ;;
stopped) kill -STOP $$ ;;
forks)   while :; do (exec sleep 0.01); done ;;
hops)    sleep 0.02; [ "$1" -gt 0 ] && (setsid bash "$0" "$tag" hops $(($1 - 1)) &) ;;
sleep)   exec sleep "$tag" ;;
esac
`

var (
	treeWords  = []string{"child", "group", "double", "nohup", "setsid", "closed", "deaf", "catches"}
	treeLeaves = []string{"sleep", "sleep", "stopped", "forks", "hops 100"}
)

// treeCode are programs for Python. TREE stands for the arguments by which bash grows a tree.
var treeCode = []string{
	`import multiprocessing as mp, time
pool = mp.get_context("fork").Pool(2)
tasks = pool.map_async(time.sleep, [300, 300])`,
	`import concurrent.futures as cf, multiprocessing as mp, time
pool = cf.ProcessPoolExecutor(2, mp_context=mp.get_context("fork"))
tasks = [pool.submit(time.sleep, 300) for _ in range(2)]`,
	`import os, signal, time
if os.fork() == 0:
    os.setsid()
    for s in signal.SIGTERM, signal.SIGHUP, signal.SIGINT: signal.signal(s, signal.SIG_IGN)
    if os.fork(): os._exit(0)
    os.closerange(0, 256)
    while True: time.sleep(300)`,
	`import subprocess
subprocess.Popen("exec bash TREE", shell=True, start_new_session=True)
subprocess.run("exec bash TREE", shell=True)`,
	`import signal
for s in signal.SIGTERM, signal.SIGHUP: signal.signal(s, signal.SIG_IGN)
while True: signal.pause()`,
	`import os, time
for _ in range(3): os.fork()
while True:
    if os.fork() == 0: os._exit(0)
    os.wait(); time.sleep(0.01)`,
}

// randomTree returns the words of a random tree. If hides is true, its processes can clear their
// environment as well as leave their session.
func randomTree(r *rand.Rand, hides bool) string {
	var words []string
	for range r.IntN(5) {
		words = append(words, treeWords[r.IntN(len(treeWords))])
	}
	for _, extra := range []string{"fan", "bare"} {
		if r.IntN(3) == 0 && (extra != "bare" || hides) {
			words = slices.Insert(words, r.IntN(len(words)+1), extra)
		}
	}
	return strings.Join(append(words, treeLeaves[r.IntN(len(treeLeaves))]), " ")
}

// newTag returns a time for sleep. It is found among the arguments of every process of treeScript.
func newTag() string { return fmt.Sprintf("9%08d.%08d", rand.IntN(1e8), rand.IntN(1e8)) }

// A storm is one round.
type storm struct {
	*started
	rand *rand.Rand
	tag  string
}

// newStorm starts a server with the script in its workspace.
func newStorm(t *testing.T, r *rand.Rand, env ...string) *storm {
	t.Helper()
	tag := newTag()
	s := &storm{started: startServer(t, append(env, "STORM="+tag)...), rand: r, tag: tag}
	s.write("tree.sh", treeScript)
	return s
}

// tree returns the arguments by which bash grows a random tree.
func (s *storm) tree(hides bool) string {
	return fmt.Sprintf("%s/tree.sh %s %s", s.dir, s.tag, randomTree(s.rand, hides))
}

// plant starts jobs with a few random trees and does not wait for them.
func (s *storm) plant(hides bool) {
	s.t.Helper()
	for range 1 + s.rand.IntN(5) {
		tool, args := "execute_command_async", map[string]any{"command": "bash " + s.tree(hides), "tty": s.rand.IntN(2) == 0}
		if s.rand.IntN(3) == 0 {
			code := strings.ReplaceAll(treeCode[s.rand.IntN(len(treeCode))], "TREE", s.tree(hides))
			tool, args = "execute_python", map[string]any{"code": code, "session": strconv.Itoa(s.rand.IntN(2))}
		}
		args["wait_seconds"] = 0
		s.Start(tool, args)
	}
}

// guards returns the pids of the server's guards.
func (s *storm) guards() (pids []int) {
	for _, pid := range children(s.inner()) {
		if line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); bytes.HasSuffix(line, []byte("\x00"+guardCommand+"\x00")) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// workers returns the pids of the server's Python processes.
func (s *storm) workers() (pids []int) {
	for _, pid := range children(s.inner()) {
		if line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); bytes.Contains(line, []byte("\x00faulthandler\x00")) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// children returns the children of all threads of a process.
func children(pid int) (pids []int) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, list := range lists {
		b, _ := os.ReadFile(list)
		for _, f := range strings.Fields(string(b)) {
			n, _ := strconv.Atoi(f)
			pids = append(pids, n)
		}
	}
	return pids
}

// left returns the living processes of the round, its server and guard included. Arguments,
// environment or directory identify them: a process would have to change all three to be missed.
func (s *storm) left() (all []procfs.Process) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		line, _ := os.ReadFile(dir + "/cmdline")
		environ, _ := os.ReadFile(dir + "/environ")
		cwd, _ := os.Readlink(dir + "/cwd")
		if bytes.Contains(line, []byte(s.tag)) || bytes.Contains(environ, []byte(s.tag)) || strings.HasPrefix(cwd, s.dir) {
			stat, _ := os.ReadFile(dir + "/stat")
			all = append(all, procfs.Process{PID: pid, Program: fmt.Sprintf("%q: %s", line, stat)})
		}
	}
	return all
}

// An ending is one way in which a server ends. If hides is true, it finds every process whatever a
// tree does.
type ending struct {
	name  string
	hides bool
	end   func(s *storm)
}

var endings = []ending{
	{"SIGKILL", false, func(s *storm) { s.signal(syscall.SIGKILL) }},
	{"SIGTERM", true, func(s *storm) { s.signal(syscall.SIGTERM) }},
	{"SIGHUP", true, func(s *storm) { s.signal(syscall.SIGHUP) }},
	{"SIGINT, then SIGTERM, then SIGKILL", false, func(s *storm) {
		s.signal(syscall.SIGINT)
		s.pause(100 * time.Millisecond)
		s.signal(syscall.SIGTERM)
		s.pause(400 * time.Millisecond)
		s.signal(syscall.SIGKILL)
	}},
	{"end of input", true, func(s *storm) { s.stdin.Close() }},
	{"closed output", true, func(s *storm) {
		s.out.Close()
		io.WriteString(s.stdin, toListTools) // the server notices when it answers
	}},
	{"guard first", false, func(s *storm) {
		for _, pid := range s.guards() {
			syscall.Kill(pid, syscall.SIGKILL)
			polltest.Until(s.t, "the end of a guard", func() bool { return !alive(pid) })
		}
		s.do("execute_command_async", "command", "true", "wait_seconds", 60)
		s.signal(syscall.SIGKILL)
	}},
	{"guard stopped first", false, func(s *storm) {
		for _, pid := range s.guards() {
			syscall.Kill(pid, syscall.SIGSTOP)
		}
		s.do("execute_command_async", "command", "true", "wait_seconds", 60)
		s.signal(syscall.SIGKILL)
	}},
	{"worker first", false, func(s *storm) {
		for _, pid := range s.workers() {
			syscall.Kill(pid, syscall.SIGKILL)
		}
		s.plant(false)
		s.pause(time.Duration(s.rand.IntN(100)) * time.Millisecond)
		s.signal(syscall.SIGKILL)
	}},
}

// alive reports whether any thread of a process runs.
func alive(pid int) bool {
	p, err := procfs.Inspect(pid)
	return err == nil && !p.Ended()
}

// pause lets the round grow for a while, so that the server ends at a random moment.
func (s *storm) pause(d time.Duration) { <-time.After(d) }

func TestKillStorm(t *testing.T) {
	if testing.Short() {
		t.Skip("a storm")
	}
	rounds, seed := jobstest.Storm(t, stormRounds)
	for i := range rounds {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		e := endings[i%len(endings)]
		t.Run(fmt.Sprintf("%d %s", i, e.name), func(t *testing.T) {
			if strings.HasPrefix(e.name, "end of") || strings.HasPrefix(e.name, "closed") || e.name == "SIGHUP" {
				overStdio(t, "clients come and go, and a hangup has files read again")
			}
			var env []string
			if e.name == "SIGHUP" {
				env = []string{"REPL_KEEPER=off"} // a front continues
			}
			t.Parallel()
			s := newStorm(t, r, env...)
			s.plant(e.hides)
			s.pause(time.Duration(r.ExpFloat64() * float64(100*time.Millisecond)))
			if r.IntN(3) == 0 { // waits until all jobs have been started
				s.do("list_jobs")
			}
			e.end(s)
			s.exit()
			s.clear()
		})
	}
}

// clear waits until nothing of the round is left, twice in a row.
func (s *storm) clear() {
	begin := time.Now()
	for clear := 0; clear < 2; {
		left := s.left()
		if clear++; len(left) == 0 {
			continue
		}
		clear = 0
		if time.Since(begin) > stormLimit {
			for _, p := range left {
				s.t.Errorf("left: %s", p.Program)
				syscall.Kill(p.PID, syscall.SIGKILL)
			}
			return
		}
		s.pause(5 * time.Millisecond)
	}
	s.t.Logf("nothing left after %v", time.Since(begin))
}

// stormLimit is how long a guard can take on a busy machine. The promise is 2 s.
const stormLimit = 10 * time.Second
