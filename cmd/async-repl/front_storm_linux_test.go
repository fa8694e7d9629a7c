package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/internal/mcp/client"
	"asyncrepl/internal/reply/report"
	"asyncrepl/internal/reply/resource"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/polltest"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// frontRounds is the number of rounds in the gate, and campaignRounds how many of them are in one
// workspace, one after the other.
const (
	frontRounds    = 100
	campaignRounds = 25
)

// Front, engine, guard and worker are killed at random, alone and in pairs, while calls are in
// flight and jobs print. Each call is answered once or its connection closed. The next client reads
// what replies have shown, no status is false, and nothing of the dead is left.
func TestFrontKillStorm(t *testing.T) {
	if testing.Short() {
		t.Skip("a storm")
	}
	notAgain(t)
	frontKillStorm(t, frontRounds, prepareFront)
}

// frontKillStorm has few rounds of kills, or as many as the person who runs the test wants.
func frontKillStorm(t *testing.T, few int, prepare func(t testing.TB, env ...string) *started) {
	rounds, seed := jobstest.Storm(t, few)
	for first := 0; first < rounds; first += campaignRounds {
		t.Run(strconv.Itoa(first), func(t *testing.T) {
			t.Parallel()
			c := newCampaign(t, rand.New(rand.NewPCG(seed, uint64(first))), prepare)
			for i := first; i < min(first+campaignRounds, rounds) && !t.Failed(); i++ {
				c.round(i)
			}
			c.end()
			if t.Failed() {
				t.Logf("STORM_ROUNDS=%d STORM_SEED=%d repeats the choices", rounds, seed)
			}
		})
	}
}

// countScript prints numbered lines of a job. Its last argument says what the job does then.
const countScript = `tag=$1 lines=$2 then=$3
for ((i = 0; i < lines; i++)); do
	((i % 100)) || sleep 0.01
	echo "$tag $i"
done
case $then in
asks) read -p "$tag? " line; echo "got $line" ;;
stays) exec sleep "$tag" ;;
esac
`

// countCode is countScript in Python.
const countCode = `import time
for i in range(LINES):
    if i % 100 == 0: time.sleep(0.01)
    print("TAG", i, flush=True)
`

// thens are what jobs do at the end of their lines.
var thens = map[string]string{"ends": "", "asks": `line = input("TAG? ")`, "stays": "time.sleep(1000)"}

// A followed job is one that replies have shown.
type followed struct {
	id     string
	tag    string // begins each of its lines
	lines  int    // how many it prints
	then   string
	python bool
	keep   bool
	engine int // the process that it began in

	// What can have happened to it. Its end can come later than the next client.
	goodbye bool // its client has said goodbye, and it is not kept
	worker  bool // its worker was killed

	// What replies have shown of it.
	status string
	output []byte // begins at the cursor 0
	cursor int64  // its output is at least as long
	last   string // the last line
}

func (f *followed) String() string {
	return fmt.Sprintf("job %s (%s, %d lines, then %s, python %t, keep %t, engine %d, goodbye %t, worker %t)", f.id, f.tag, f.lines, f.then, f.python, f.keep, f.engine, f.goodbye, f.worker)
}

// ended reports whether a reply has shown the end of the job.
func (f *followed) ended() bool { return isEnd(f.status) }

func isEnd(status string) bool {
	word, _, _ := strings.Cut(status, " ")
	return word != "" && jobs.Status(word).Final()
}

// A campaign is a workspace to which one client comes after the other.
type campaign struct {
	*storm  // its server is that of the client that is there
	engine  int
	lost    []string // what the first reply of the engine says of those before it
	answers *answers
	flying  []flying
	jobs    []*followed
	past    []*followed   // ended, and checked at the end of the campaign
	slowest time.Duration // how long something of a dead engine was there after a start
	slowly  string        // names it and its round
	what    string        // describes the round in errors
}

// A flying call has not been answered yet.
type flying struct {
	*client.Pending
	job *followed // the job that the call starts, or nil
}

// answers counts the answers that a server writes, by the id of the request.
type answers struct {
	mu    sync.Mutex
	rest  []byte
	count map[int]int
}

func (a *answers) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.rest = append(a.rest, p...)
	for {
		line, rest, complete := bytes.Cut(a.rest, []byte("\n"))
		if !complete {
			return len(p), nil
		}
		a.rest = rest
		var m struct {
			ID     *int
			Method string
		}
		if err := json.Unmarshal(line, &m); err == nil && m.ID != nil && m.Method == "" {
			a.count[*m.ID]++
		}
	}
}

func newCampaign(t *testing.T, r *rand.Rand, prepare func(t testing.TB, env ...string) *started) *campaign {
	tag := newTag()
	s := prepare(t, "STORM="+tag, "TMPDIR="+t.TempDir())
	s.write("count.sh", countScript)
	s.write("tree.sh", treeScript)
	c := &campaign{storm: &storm{started: s, rand: r, tag: tag}}
	c.come()
	return c
}

// errorf fails the test with the round.
func (c *campaign) errorf(format string, args ...any) {
	c.t.Helper()
	c.t.Errorf("round %s: %s", c.what, fmt.Sprintf(format, args...))
}

// come starts the server of the next client, which has an engine then.
func (c *campaign) come() {
	c.t.Helper()
	c.started = c.another()
	c.answers = &answers{count: make(map[int]int)}
	c.start()
	c.Client = client.New(io.TeeReader(c.out, c.answers), c.stdin)
	must.Do(c.t, c.Initialize(c.ctx()))
	c.meet()
}

// meet notes which engine the client has, and what was lost with the one before.
func (c *campaign) meet() {
	c.t.Helper()
	r := c.do("server_status")
	c.engine, c.lost = pidIn(c.t, r), lostIn(r)
}

// lostIn returns what a reply says of engines that were killed.
func lostIn(r client.Reply) (lost []string) {
	for line := range strings.Lines(string(r)) {
		if text, ok := strings.CutPrefix(line, "Lost: "); ok {
			lost = append(lost, text)
		}
	}
	return lost
}

// round has one round of kills.
func (c *campaign) round(i int) {
	c.t.Helper()
	victims := []string{"front", "engine", "guard", "worker"}
	if c.confined {
		victims = append(victims, "outer", "bubblewrap", "first process")
	}
	c.rand.Shuffle(len(victims), func(i, j int) { victims[i], victims[j] = victims[j], victims[i] })
	victims = victims[:1+c.rand.IntN(2)]
	goodbye := c.rand.IntN(3) == 0
	c.what = fmt.Sprintf("%d (%s, goodbye %t)", i, strings.Join(victims, " and "), goodbye)

	c.begin()
	c.fly()
	c.pause(time.Duration(c.rand.ExpFloat64() * float64(30*time.Millisecond)))
	dead := c.kill(victims)
	before := c.engine
	if slices.Contains(victims, "front") {
		goodbye = false
		c.exit()
		c.land(true)
	} else {
		if dead {
			c.land(false)
			if c.rand.IntN(2) == 0 {
				c.sameClient()
			}
		}
		if goodbye {
			c.cmd.Process.Signal(syscall.SIGTERM)
			c.exit()
		} else {
			c.lose()
		}
		c.land(true)
	}
	left := c.engine // not before, if the same client has come back
	c.come()
	c.checkEngine(left, dead && left == before, goodbye)
	for _, f := range c.jobs {
		f.goodbye = f.goodbye || goodbye && !f.keep
		f.worker = f.worker || f.python && slices.Contains(victims, "worker")
		c.check(f, dead && f.engine == before)
	}
	c.nothingLeft()
	c.forget()
}

// begin starts jobs and looks at some.
func (c *campaign) begin() {
	c.t.Helper()
	for range 1 + c.rand.IntN(3) {
		f := c.choose()
		tool, args := c.call(f)
		args["wait_seconds"] = 0
		r := must.Get(c.Call(c.ctx(), tool, args))(c.t)
		c.startedAs(f, r)
	}
	if c.rand.IntN(4) == 0 {
		c.Start("execute_command_async", map[string]any{"command": "bash " + c.tree(false), "tty": c.rand.IntN(2) == 0, "wait_seconds": 0})
	}
	c.pause(time.Duration(c.rand.ExpFloat64() * float64(20*time.Millisecond)))
	for range c.rand.IntN(4) {
		c.look(c.jobs[c.rand.IntN(len(c.jobs))])
	}
}

// choose returns a job to start. One session has one job that lives.
func (c *campaign) choose() *followed {
	f := &followed{tag: newTag(), lines: c.rand.IntN(1500), then: []string{"ends", "asks", "stays"}[c.rand.IntN(3)], keep: c.rand.IntN(4) == 0, engine: c.engine}
	f.python = c.rand.IntN(3) == 0 && !slices.ContainsFunc(c.jobs, func(f *followed) bool { return f.python && !f.ended() })
	return f
}

// call returns the call that starts a job.
func (c *campaign) call(f *followed) (tool string, args map[string]any) {
	if !f.python {
		command := fmt.Sprintf("bash count.sh %s %d %s", f.tag, f.lines, f.then)
		return "execute_command_async", map[string]any{"command": command, "tty": c.rand.IntN(2) == 0, "keep": f.keep}
	}
	code := strings.NewReplacer("TAG", f.tag, "LINES", strconv.Itoa(f.lines)).Replace(countCode + thens[f.then])
	return "execute_python", map[string]any{"code": code, "keep": f.keep}
}

// startedAs notes a job that a reply has shown for the first time.
func (c *campaign) startedAs(f *followed, r client.Reply) {
	c.t.Helper()
	if f.id = r.Header("Job ID"); f.id == "" {
		c.errorf("a reply without a job: %s", r)
		return
	}
	c.jobs = append(c.jobs, f)
	c.shown(f, r)
}

// look reads a job by one of the ways that show output.
func (c *campaign) look(f *followed) {
	c.t.Helper()
	if c.rand.IntN(2) == 0 {
		c.shown(f, c.do("check_job_status", "job_id", f.id, "wait_seconds", 0, "max_chars", 200+c.rand.IntN(5000)))
		return
	}
	data, _ := c.read(f, int64(len(f.output)))
	f.output = append(f.output, data...)
}

// read reads output from a cursor on, and reports whether there is more.
func (c *campaign) read(f *followed, cursor int64) (data []byte, more bool) {
	c.t.Helper()
	raw, err := c.Request(c.ctx(), "resources/read", map[string]any{"uri": fmt.Sprintf("%s?view=%s&cursor=%d", report.OutputURI(f.id), report.RawView, cursor)})
	if err != nil {
		c.errorf("reading %s: %v", f, err)
		return nil, false
	}
	var result struct {
		Contents []struct {
			Text string
			Blob []byte
			Meta map[string]resource.Range `json:"_meta"`
		}
	}
	must.Do(c.t, json.Unmarshal(raw, &result))
	for _, part := range result.Contents {
		data = append(append(data, part.Text...), part.Blob...)
		rng := part.Meta[resource.OutputMeta]
		if rng.From != cursor {
			c.errorf("%s: read from %d, and got %+v", f, cursor, rng)
		}
		more = rng.More
	}
	return data, more
}

// shown notes what a reply has shown of a job.
func (c *campaign) shown(f *followed, r client.Reply) {
	c.t.Helper()
	status := r.Header("Status")
	if f.ended() && status != f.status {
		c.errorf("%s was %q and is %q", f, f.status, status)
	}
	f.status = status
	if cursor, err := strconv.ParseInt(r.Header("Cursor"), 10, 64); err == nil {
		f.cursor = max(f.cursor, cursor)
	}
	for line := range strings.Lines(string(r)) {
		if strings.HasPrefix(line, f.tag+" ") && strings.HasSuffix(line, "\n") {
			f.last = strings.TrimSpace(line)
		}
	}
}

// fly makes calls that are in flight when something is killed.
func (c *campaign) fly() {
	c.t.Helper()
	for range 1 + c.rand.IntN(4) {
		f := c.jobs[c.rand.IntN(len(c.jobs))]
		fly := flying{}
		tool, args := "list_jobs", map[string]any{}
		switch c.rand.IntN(5) {
		case 0:
			fly.job = c.choose()
			tool, args = c.call(fly.job)
			args["wait_seconds"] = 100
		case 1:
			tool, args = "wait_for_jobs", map[string]any{"job_ids": []string{f.id}, "wait_seconds": 100}
		case 2:
			tool, args = "check_job_status", map[string]any{"job_id": f.id, "wait_seconds": 100}
		case 3:
			if f.then == "asks" && !f.ended() {
				tool, args = map[bool]string{true: "send_python_input", false: "send_command_input"}[f.python], map[string]any{"job_id": f.id, "text": "x\n"}
			}
		}
		p, err := c.Start(tool, args)
		must.Do(c.t, err)
		fly.Pending = p
		c.flying = append(c.flying, fly)
	}
}

// kill kills the victims, and reports whether the engine is one of them.
func (c *campaign) kill(victims []string) (dead bool) {
	c.t.Helper()
	pids := map[string][]int{"front": {c.cmd.Process.Pid}, "engine": {c.engine}, "guard": c.guards(), "worker": c.workers()}
	chain := []int{c.engine}
	if c.confined {
		chain = chainOf(c.engine)
	}
	if len(chain) == 4 {
		pids["outer"], pids["bubblewrap"], pids["first process"], pids["engine"] = chain[:1], chain[1:2], chain[2:3], chain[3:]
	}
	for _, victim := range victims {
		for _, pid := range pids[victim] {
			syscall.Kill(pid, syscall.SIGKILL)
		}
		c.pause(time.Duration(c.rand.IntN(20)) * time.Millisecond)
		dead = dead || victim != "front" && victim != "guard" && victim != "worker"
	}
	if dead {
		polltest.Until(c.t, "the end of the engine", func() bool { return !slices.ContainsFunc(chain, alive) })
	}
	return dead
}

// land waits for the answers to the calls in flight. If closed is true, the server has ended.
func (c *campaign) land(closed bool) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, fly := range c.flying {
		r, err := fly.Reply(ctx)
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			c.errorf("a call is not answered")
		case err == nil && fly.job != nil:
			c.startedAs(fly.job, r)
		case err == nil:
			for _, f := range c.jobs {
				if f.id == r.Header("Job ID") && r.Header("Status") != "" {
					c.shown(f, r)
				}
			}
		case !closed && !errors.Is(err, client.ErrTool):
			c.errorf("a call is answered with %v", err)
		}
	}
	c.flying = nil
	if !closed {
		return
	}
	c.answers.mu.Lock()
	defer c.answers.mu.Unlock()
	for id, n := range c.answers.count {
		if n > 1 {
			c.errorf("request %d has %d answers", id, n)
		}
	}
}

// sameClient calls the server whose engine was killed. It has another engine then.
func (c *campaign) sameClient() {
	c.t.Helper()
	before := c.engine
	first, err := c.Call(c.ctx(), "list_jobs", nil)
	if err != nil && !errors.Is(err, client.ErrTool) { // the front need not know yet
		c.errorf("the client is lost: %v", err)
	}
	if c.meet(); c.engine == before {
		c.errorf("the engine is the dead one")
	}
	c.lost = append(c.lost, lostIn(first)...)
	for _, f := range c.jobs {
		f.worker = f.python // it can have been a victim
		c.check(f, true)
	}
	f := c.choose()
	tool, args := c.call(f)
	args["wait_seconds"] = 0
	c.startedAs(f, must.Get(c.Call(c.ctx(), tool, args))(c.t))
}

// check compares a job with what replies have shown of it. dead reports whether its engine was
// killed.
func (c *campaign) check(f *followed, dead bool) {
	c.t.Helper()
	var r client.Reply
	// An engine that ends by itself, after a goodbye or because it has nothing to lose, has its jobs for
	// a moment. Those of a killed one are there at once.
	polltest.Check(c.t, func() (err error) {
		if r, err = c.Call(c.ctx(), "check_job_status", map[string]any{"job_id": f.id, "wait_seconds": 0}); err != nil && dead {
			c.t.Fatalf("round %s: %s: %v", c.what, f, err)
		}
		return err
	})
	ended := f.ended()
	c.shown(f, r)
	if text := strings.Join(c.lost, ""); !ended && dead && strings.HasPrefix(f.status, "failed (server was killed") && !strings.Contains(text, f.id) && !strings.Contains(text, " more") {
		c.errorf("%s is lost, and the first reply says only %q", f, c.lost)
	}
	word, _, _ := strings.Cut(f.status, " ")
	killed := strings.HasPrefix(f.status, "failed (server was killed")
	switch {
	case ended: // shown has compared it
	case dead && !isEnd(f.status), killed && !dead, word == "failed" && !killed && !f.worker, word == "cancelled" && !f.goodbye:
		c.errorf("%s is %q; its engine was killed: %t", f, f.status, dead)
	case word == "completed" && f.then == "stays":
		c.errorf("%s is %q", f, f.status)
	}
	var all []byte
	for more := true; more; {
		var data []byte
		data, more = c.read(f, int64(len(all)))
		if all = append(all, data...); len(data) == 0 {
			break
		}
	}
	if !bytes.HasPrefix(all, f.output) || int64(len(all)) < f.cursor || !bytes.Contains(all, []byte(f.last)) {
		c.errorf("%s has %d bytes, %.300q, and replies have shown %d, up to %d, and %q: %.300q", f, len(all), all, len(f.output), f.cursor, f.last, f.output)
	}
	n := 0
	for line := range strings.Lines(string(all)) {
		if number, ok := strings.CutPrefix(strings.TrimRight(line, "\r\n"), f.tag+" "); ok && strings.HasSuffix(line, "\n") {
			if number != strconv.Itoa(n) {
				c.errorf("%s has line %q in place of %d", f, number, n)
				break
			}
			n++
		}
	}
	if word == "completed" && n != f.lines {
		c.errorf("%s is %q with %d lines", f, f.status, n)
	}
	f.output = all
}

// checkEngine checks that the client has the engine that was left with jobs, and that a dead one
// has left none.
func (c *campaign) checkEngine(before int, dead, goodbye bool) {
	c.t.Helper()
	if dead {
		if c.engine == before {
			c.errorf("the engine is the dead one")
		}
		return
	}
	for _, f := range c.jobs {
		if !f.ended() && f.then == "stays" && !f.python && (f.keep || !goodbye) && c.engine != before {
			c.errorf("engine %d was not taken over, with %s, but %d", before, f, c.engine)
		}
	}
}

// leftTime is how long after a start something of dead engines can be left.
const leftTime = 2 * time.Second

// nothingLeft waits until there is nothing of dead engines: neither processes nor names nor
// directories.
func (c *campaign) nothingLeft() {
	c.t.Helper()
	for began := time.Now(); ; c.pause(5 * time.Millisecond) {
		found := c.strays()
		if len(found) == 0 {
			return
		}
		took := time.Since(began)
		if took > c.slowest {
			c.slowest, c.slowly = took, "round "+c.what+": "+strings.Join(found, "\n")
		}
		if took > leftTime {
			c.errorf("left: %s", strings.Join(found, "\n"))
			return
		}
	}
}

// strays returns what is there and is neither the front nor the engine of the client that is there,
// nor belongs to one of them.
func (c *campaign) strays() (found []string) {
	for _, p := range c.left() {
		if !c.belongs(p.PID) && alive(p.PID) {
			found = append(found, p.Program)
		}
	}
	for _, name := range c.sockets() {
		if !strings.HasSuffix(name, "-"+strconv.Itoa(c.engine)) {
			found = append(found, name)
		}
	}
	state := c.records()
	for _, pattern := range []string{"scratch/*", "runs/*/.*", "runs/*/*/*.new"} {
		names, _ := filepath.Glob(filepath.Join(state, pattern))
		found = append(found, names...)
	}
	programs, _ := filepath.Glob(filepath.Join(state, "runs/*/*/*/"))
	for _, path := range programs {
		about, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "run.json"))
		if st, err := os.Stat(path); err == nil && st.IsDir() && len(filepath.Base(path)) != len(ulidText) && !bytes.Contains(about, fmt.Appendf(nil, `"pid":%d,`, c.engine)) {
			found = append(found, path)
		}
	}
	temp, _ := filepath.Glob(filepath.Join(c.setting("TMPDIR"), "*"))
	found = append(found, temp...)
	if own, _ := filepath.Glob(filepath.Join(filepath.Dir(state), "tmp", "*")); c.confined && len(own) > 1 {
		found = append(found, own...)
	}
	return found
}

// ulidText is as long as the id of a job or run.
const ulidText = "01K00000000000000000000000"

// belongs reports whether a process is the front or the engine, or a descendant of the engine.
func (c *campaign) belongs(pid int) bool {
	for range 1000 {
		if pid == c.cmd.Process.Pid || pid == c.engine {
			return true
		}
		p, err := procfs.Inspect(pid)
		if err != nil || p.Parent <= 1 {
			return false
		}
		pid = p.Parent
	}
	return false
}

// forget ends jobs that live if they are many, and puts ended ones aside.
func (c *campaign) forget() {
	c.t.Helper()
	live := 0
	for _, f := range slices.Backward(c.jobs) {
		if !f.ended() {
			if live++; live > 5 {
				c.shown(f, c.do("cancel_job", "job_id", f.id, "force", true))
			}
		}
	}
	for _, f := range c.jobs {
		if f.ended() {
			c.past = append(c.past, f)
		}
	}
	c.jobs = slices.DeleteFunc(c.jobs, (*followed).ended)
}

// end checks all jobs of the campaign once more, and ends its engine.
func (c *campaign) end() {
	c.t.Helper()
	c.what = "of the end"
	if c.t.Failed() {
		return
	}
	for _, f := range c.past {
		c.check(f, false)
	}
	syscall.Kill(c.engine, syscall.SIGTERM)
	c.out.Close()
	c.stdin.Close()
	c.exit()
	c.clear()
	if names := c.sockets(); len(names) > 0 {
		c.errorf("left are %v", names)
	}
	c.t.Logf("%d jobs; last was left, for %v, %s", len(c.past)+len(c.jobs), c.slowest, c.slowly)
}
