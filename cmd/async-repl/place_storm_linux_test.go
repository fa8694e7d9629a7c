package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"asyncrepl/internal/kernel/procfs"
	"asyncrepl/internal/mcp/client"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/polltest"
	"asyncrepl/internal/test/slurmtest"
	"asyncrepl/internal/test/sshdtest"
	"asyncrepl/jobs/jobstest"
)

// placeRounds is the number of rounds in the gate.
const placeRounds = 10

// A stormPlace is a kind of place of the storm.
type stormPlace struct {
	kind    string
	weight  int                                   // how often it is chosen
	carrier string                                // a word among the arguments of its carriers
	keys    func(p *placeCampaign) map[string]any // starts what it needs, and returns its keys in the file of places
	faults  []fault                               // beside those of all kinds
}

// A fault comes at a random moment of a round.
type fault struct {
	name string
	long bool // few rounds leave it out
	hit  func(p *placeCampaign)
}

// anyFaults are the faults at a place of any kind.
var anyFaults = []fault{
	{"the carrier is killed", false, func(p *placeCampaign) { signalAll(p.carriers(), syscall.SIGKILL) }},
	{"the carrier is killed twice", false, func(p *placeCampaign) {
		signalAll(p.carriers(), syscall.SIGKILL)
		p.pause(time.Duration(p.rand.IntN(300)) * time.Millisecond)
		signalAll(p.carriers(), syscall.SIGKILL)
	}},
	{"the carrier is paused for a moment", false, func(p *placeCampaign) { p.stop(time.Second) }},
	{"the carrier is paused for 20 s", true, func(p *placeCampaign) { p.stop(20 * time.Second) }},
	{"the far engine is killed", false, (*placeCampaign).killEngineThere},
	{"our engine is killed", false, func(p *placeCampaign) {
		p.ours = "engine"
		p.allow("failed (could not start: its server ended before far had the job)", func(f *placedJob) bool { return f.status == "queued" })
		kill(p.t, p.started.engine())
	}},
	{"our front is killed", false, func(p *placeCampaign) {
		p.ours = "front"
		p.cmd.Process.Kill()
	}},
}

var stormPlaces = []stormPlace{
	{"exec", 3, cutCommand, func(p *placeCampaign) map[string]any {
		return map[string]any{"exec": []string{ownProgram(p.t), cutCommand, p.orders, "/usr/bin/env"}}
	}, []fault{
		{"the link is cut within a frame", false, (*placeCampaign).cut},
		{"the link is cut within a frame, and paused", false, func(p *placeCampaign) {
			p.cut()
			p.stop(time.Second)
		}},
	}},
	{"ssh", 1, "BatchMode=yes", func(p *placeCampaign) map[string]any {
		p.sshd = sshdtest.Start(p.t)
		return map[string]any{"ssh": p.sshd.Args()}
	}, []fault{
		{"the connections of sshd are killed", false, func(p *placeCampaign) { p.sshd.Cut(p.t) }},
		{"sshd is killed and comes back", false, func(p *placeCampaign) {
			p.sshd.Crash(p.t)
			p.pause(time.Duration(p.rand.IntN(3000)) * time.Millisecond)
			p.sshd.Run(p.t)
		}},
		{"sshd and all that it has started are killed", false, func(p *placeCampaign) {
			p.sshd.Stop(p.t)
			p.sshd.Run(p.t)
			p.allow(engineGone, func(*placedJob) bool { return true })
		}},
	}},
	{"slurm", 1, "--overlap", func(p *placeCampaign) map[string]any {
		p.cluster = slurmtest.Start(p.t)
		p.cmd.Env = append(p.cmd.Env, "SLURM_CONF="+p.cluster.Conf)
		return map[string]any{"slurm": []string{"--partition=short", "--time=60"}}
	}, []fault{
		{"slurmctld is restarted", false, func(p *placeCampaign) {
			p.cluster.Stop(p.t, slurmtest.Controller)
			p.pause(time.Duration(p.rand.IntN(3000)) * time.Millisecond)
			p.cluster.Run(p.t, slurmtest.Controller)
		}},
		{"an allocation is cancelled", false, (*placeCampaign).cancelAllocation},
	}},
}

// engineGone begins the status of a job whose engine has ended.
const engineGone = "failed (the engine on far is gone"

// askScript is a job that takes lines, and says which.
const askScript = `while read -r -p "$1? " line && [ "$line" != end ]; do echo "got $line"; done; echo bye`

// gotLine is what the job says of a line that it has taken.
var gotLine = regexp.MustCompile(`got (in-\d+)\r?\n`)

// The link, the carrier, sshd, slurmctld, the engine there, and ours and its front have faults at random moments. Each
// job there prints numbered lines or takes input: no line and no input is missing or there twice, no status is false,
// each call is answered once, and at the end nothing is left on either side.
func TestPlaceFaultStorm(t *testing.T) {
	if testing.Short() {
		t.Skip("a storm")
	}
	notAgain(t)
	t.Parallel()
	rounds, seed := jobstest.Storm(t, placeRounds)
	var kinds []int // an element a weight
	for n, kind := range stormPlaces {
		kinds = append(kinds, slices.Repeat([]int{n}, kind.weight)...)
	}
	at := make([][]int, len(stormPlaces)) // the rounds of each kind
	for i := range rounds {
		n := kinds[rand.New(rand.NewPCG(^seed, uint64(i))).IntN(len(kinds))] // not by what chooses the fault
		at[n] = append(at[n], i)
	}
	for n, kind := range stormPlaces {
		for part := range slices.Chunk(at[n], campaignRounds) {
			t.Run(fmt.Sprintf("%s from %d", kind.kind, part[0]), func(t *testing.T) {
				t.Parallel()
				p := newPlaceCampaign(t, kind)
				for _, i := range part {
					p.rand = rand.New(rand.NewPCG(seed, uint64(i)))
					if p.round(i, rounds > placeRounds); t.Failed() {
						break
					}
				}
				p.end()
				if t.Failed() {
					t.Logf("STORM_ROUNDS=%d STORM_SEED=%d repeats the choices", rounds, seed)
				}
			})
		}
	}
}

// A placeCampaign is a workspace with a place, at which there is one fault after the other.
type placeCampaign struct {
	*campaign
	place   stormPlace
	far     *farMachine
	work    string             // the workspace there
	orders  string             // the directory with the orders to a carrier of exec
	sshd    *sshdtest.Server   // nil: the place has none
	cluster *slurmtest.Cluster // nil: the place has none
	dead    []string           // the keys of killed engines of allocations, whose files wait for a later engine

	// Of the round.
	now  []*placedJob
	ours string // what was killed on our side: front, engine or nothing

	counts struct{ rounds, jobs, failed, delivered, refused, unsure int }
}

func newPlaceCampaign(t *testing.T, kind stormPlace) *placeCampaign {
	far := newFarMachine(t)
	tag := newTag()
	s := prepareFront(t, "STORM="+tag, "TMPDIR="+t.TempDir())
	p := &placeCampaign{campaign: &campaign{storm: &storm{started: s, tag: tag}}, place: kind, far: far, work: t.TempDir(), orders: t.TempDir()}
	must.Do(t, os.WriteFile(filepath.Join(p.work, "count.sh"), []byte(countScript), 0o600))
	must.Do(t, os.WriteFile(filepath.Join(p.work, "ask.sh"), []byte(askScript), 0o600))
	keys := kind.keys(p)
	keys["workspace"], keys["python"] = p.work, realPython()
	keys["setup"] = fmt.Sprintf("export HOME='%s' TMPDIR='%s' STORM='%s'; unset XDG_STATE_HOME XDG_CACHE_HOME", far.home, far.tmp, tag)
	file := filepath.Join(filepath.Dir(s.setting("REPL_STATE_DIR")), "places.json")
	text := must.Get(json.Marshal(map[string]any{"places": map[string]any{"far": keys}}))(t)
	must.Do(t, os.WriteFile(file, text, 0o600))
	s.cmd.Env = append(s.cmd.Env, "REPL_PLACES="+file)
	p.come()
	return p
}

// A placedJob is a job at the place.
type placedJob struct {
	*followed
	may string // begins the status of an end that the fault can cause; empty: it can cause none
}

// A dialogue is a job that takes lines.
type dialogue struct {
	*placedJob
	said   int      // how many lines were sent
	taken  []string // the lines that have been delivered
	unsure []string // those of which nothing is known
}

// round has one fault.
func (p *placeCampaign) round(i int, long bool) {
	p.t.Helper()
	faults := slices.Concat(anyFaults, p.place.faults)
	if !long {
		faults = slices.DeleteFunc(faults, func(f fault) bool { return f.long })
	}
	fault := faults[p.rand.IntN(len(faults))]
	p.what = fmt.Sprintf("%d (%s: %s)", i, p.place.kind, fault.name)
	p.now, p.ours = nil, ""
	for n := range 1 + p.rand.IntN(3) {
		f := &placedJob{followed: &followed{tag: newTag(), lines: p.rand.IntN(5000), then: "ends", python: n == 0 && p.rand.IntN(2) == 0}}
		tool, args := p.call(f.followed)
		p.startThere(f, tool, args)
	}
	counting := p.now
	d := &dialogue{placedJob: &placedJob{followed: &followed{tag: newTag()}}}
	p.startThere(d.placedJob, "execute_command_async", map[string]any{"command": "bash ask.sh " + d.tag})
	p.await(d.placedJob, "waiting_input")
	for range p.rand.IntN(3) {
		p.say(d, nil)
	}
	p.pause(time.Duration(p.rand.ExpFloat64() * float64(50*time.Millisecond)))

	hit := func() { fault.hit(p) }
	if p.rand.IntN(2) == 0 {
		hit()
		hit = nil
	}
	p.say(d, hit) // the fault comes while the input is on its way, or has come before
	if p.ours == "front" {
		p.exit()
		p.comeAgain()
	}
	for range p.rand.IntN(3) {
		p.say(d, nil)
	}
	for _, f := range counting {
		p.follow(f)
	}
	p.finish(d)
	p.obeyed()
	if p.ours == "engine" { // a front does not replace many engines one after the other
		p.lose()
		p.comeAgain()
	}
	p.counts.rounds++
}

// comeAgain starts the server of the next client.
func (p *placeCampaign) comeAgain() {
	p.t.Helper()
	p.answeredOnce()
	p.come()
}

// answeredOnce checks that no call of the client has two answers.
func (p *placeCampaign) answeredOnce() {
	p.t.Helper()
	p.answers.mu.Lock()
	defer p.answers.mu.Unlock()
	for id, n := range p.answers.count {
		if n > 1 {
			p.errorf("request %d has %d answers", id, n)
		}
	}
}

// startThere starts a job at the place.
func (p *placeCampaign) startThere(f *placedJob, tool string, args map[string]any) {
	p.t.Helper()
	p.startedThere(f, must.Get(p.callThere(tool, args).Reply(p.ctx()))(p.t))
}

// callThere calls a tool that starts a job at the place.
func (p *placeCampaign) callThere(tool string, args map[string]any) *client.Pending {
	p.t.Helper()
	args["wait_seconds"], args["on"] = 0, "far"
	delete(args, "keep")
	return must.Get(p.Start(tool, args))(p.t)
}

// startedThere notes a job, whose start was answered.
func (p *placeCampaign) startedThere(f *placedJob, r client.Reply) {
	p.t.Helper()
	if f.id = r.Header("Job ID"); f.id == "" || !strings.HasPrefix(r.Header("Place"), "far") {
		p.t.Fatalf("round %s: the start of %s is answered with %s", p.what, f, r)
	}
	f.status = r.Header("Status")
	p.now = append(p.now, f)
	p.counts.jobs++
}

// allow notes how the jobs that match can end because of the fault.
func (p *placeCampaign) allow(may string, match func(*placedJob) bool) {
	for _, f := range p.now {
		if match(f) {
			f.may = may
		}
	}
}

// carriers returns the processes of the carriers, at one of their two ends.
func (p *placeCampaign) carriers() []int {
	if p.rand.IntN(2) == 0 {
		return p.far.processes(dialCommand)
	}
	return slices.DeleteFunc(children(p.started.engine()), func(pid int) bool {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // an error: it has ended
		return !slices.Contains(strings.Split(string(line), "\x00"), p.place.carrier)
	})
}

func signalAll(pids []int, sig syscall.Signal) {
	for _, pid := range pids {
		syscall.Kill(pid, sig) // an error: it has ended
	}
}

// stop stops the carriers for a while.
func (p *placeCampaign) stop(d time.Duration) {
	pids := p.carriers()
	signalAll(pids, syscall.SIGSTOP)
	p.pause(d)
	signalAll(pids, syscall.SIGCONT)
}

// cut orders the cut of the link in the middle of what is written next.
func (p *placeCampaign) cut() {
	p.t.Helper()
	file := filepath.Join(p.orders, cutDirections[p.rand.IntN(len(cutDirections))])
	must.Do(p.t, os.WriteFile(file+".new", fmt.Appendf(nil, "%d", p.rand.IntN(101)), 0o600))
	must.Do(p.t, os.Rename(file+".new", file))
}

// obeyed waits until each ordered cut has been made.
func (p *placeCampaign) obeyed() {
	p.t.Helper()
	polltest.Check(p.t, func() error {
		if entries, err := os.ReadDir(p.orders); err != nil || len(entries) > 0 {
			return fmt.Errorf("round %s: the cut was not made: %v, %v", p.what, entries, err)
		}
		return nil
	})
}

// killEngineThere kills an engine there. With Slurm, each allocation has one.
func (p *placeCampaign) killEngineThere() {
	p.t.Helper()
	if p.cluster == nil {
		kill(p.t, p.far.engine())
		p.allow(engineGone, func(*placedJob) bool { return true })
		return
	}
	if pid, id := p.allocation(); pid > 0 {
		p.allowInAllocation("failed (Slurm: ", id)
		kill(p.t, pid)
	}
}

// cancelAllocation has another program cancel an allocation.
func (p *placeCampaign) cancelAllocation() {
	p.t.Helper()
	if pid, id := p.allocation(); pid > 0 {
		p.allowInAllocation("failed (Slurm: ", id)
		p.cluster.Must(p.t, "scancel", id)
	}
}

// allocation chooses an allocation, by its engine. There is none in the moment in which each has ended.
func (p *placeCampaign) allocation() (engine int, id string) {
	p.t.Helper()
	pids := p.far.engines()
	if len(pids) == 0 {
		return 0, ""
	}
	engine = pids[p.rand.IntN(len(pids))]
	if id, _, _ = procfs.LookupEnv(engine, "SLURM_JOB_ID"); id == "" { // it has ended
		return 0, ""
	}
	p.leaveFiles(engine)
	return engine, id
}

// leaveFiles notes that an engine of an allocation is killed, and leaves files.
func (p *placeCampaign) leaveFiles(engine int) {
	line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", engine)) // an error: it has ended
	if match := keyOfEngine.FindSubmatch(line); match != nil {
		p.dead = append(p.dead, string(match[1]))
	}
}

// keyOfEngine is the key among the settings of an engine there.
var keyOfEngine = regexp.MustCompile(`"key":"(\w+)"`)

// allowInAllocation is allow for the jobs of one allocation, which bears the name of the session or job.
func (p *placeCampaign) allowInAllocation(may, id string) {
	p.t.Helper()
	name := must.Get(url.QueryUnescape(p.cluster.Must(p.t, "squeue", "--noheader", "--states=all", "--jobs="+id, "--format=%j")))(p.t)
	p.allow(may, func(f *placedJob) bool {
		return strings.HasSuffix(name, "/"+f.id) || f.python && strings.HasSuffix(name, "/python/far")
	})
}

// status returns a reply about a job. An engine that was killed is replaced by the next call.
func (p *placeCampaign) status(f *placedJob, wait float64) (r client.Reply) {
	p.t.Helper()
	polltest.Check(p.t, func() (err error) {
		r, err = p.Call(p.ctx(), "check_job_status", map[string]any{"job_id": f.id, "wait_seconds": wait})
		if err != nil && !(errors.Is(err, client.ErrTool) && strings.Contains(err.Error(), "The server died during this call")) {
			p.t.Fatalf("round %s: %s: %v", p.what, f, err)
		}
		return err
	})
	if f.ended() && r.Header("Status") != f.status {
		p.errorf("%s was %q and is %q", f, f.status, r.Header("Status"))
	}
	f.status = r.Header("Status")
	return r
}

// await waits until a job has a status, or has ended.
func (p *placeCampaign) await(f *placedJob, status string) client.Reply {
	p.t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if r := p.status(f, 1); f.ended() || strings.HasPrefix(f.status, status) && r.Header("Link") == "" {
			return r
		}
	}
	p.t.Fatalf("round %s: %s is %q, not %q", p.what, f, f.status, status)
	return ""
}

// say sends a line to the job. While it is on its way, there is a fault if hit is not nil.
func (p *placeCampaign) say(d *dialogue, hit func()) {
	p.t.Helper()
	line := fmt.Sprintf("in-%d", d.said)
	d.said++
	call, err := p.Start("send_command_input", map[string]any{"job_id": d.id, "text": line + "\n", "wait_seconds": 0})
	if err != nil {
		if hit != nil {
			hit()
		}
		d.note(p, line, inputUnknown) // the front has been killed
		return
	}
	if hit != nil {
		p.pause(time.Duration(p.rand.IntN(20)) * time.Millisecond)
		hit()
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r, err := call.Reply(ctx)
	input := r.Header("Input")
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		p.errorf("input is not answered")
	case err != nil && errors.Is(err, client.ErrTool) && !strings.Contains(err.Error(), "The server died"):
		p.counts.refused++
	case err != nil && p.ours == "":
		p.errorf("input is answered with %v", err)
	case err != nil:
		d.note(p, line, inputUnknown)
	case strings.HasPrefix(input, "not delivered"):
		p.counts.refused++
	case strings.HasPrefix(input, "not known"):
		d.note(p, line, p.learn(d))
	case input == "":
		p.errorf("input is answered with %s", r)
	default: // whether or not a program waits for it
		d.note(p, line, inputDelivered)
	}
}

// What has become of an input.
const (
	inputUnknown = iota
	inputDelivered
	inputRefused
)

// note notes what has become of a line.
func (d *dialogue) note(p *placeCampaign, line string, what int) {
	switch what {
	case inputDelivered:
		d.taken = append(d.taken, line)
		p.counts.delivered++
	case inputUnknown:
		d.unsure = append(d.unsure, line)
		p.counts.unsure++
	case inputRefused:
		p.counts.refused++
	}
}

// learn waits until the status says what became of the last input. That stays unknown if the job ends, or our engine.
func (p *placeCampaign) learn(d *dialogue) (what int) {
	p.t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		switch input := p.status(d.placedJob, 0.1).Header("Input"); {
		case strings.HasPrefix(input, "not delivered"):
			return inputRefused
		case strings.HasPrefix(input, "delivered"):
			return inputDelivered
		case d.ended():
			return inputUnknown
		case input == "" && p.ours != "":
			return inputUnknown
		case input == "":
			p.errorf("an input to %s is forgotten", d)
			return inputUnknown
		}
	}
	p.errorf("nothing is ever known of an input to %s", d)
	return inputUnknown
}

// all returns the whole output of a job.
func (p *placeCampaign) all(f *followed) (all []byte) {
	p.t.Helper()
	for more := true; more; {
		var data []byte
		if data, more = p.read(f, int64(len(all))); len(data) == 0 {
			break
		}
		all = append(all, data...)
	}
	return all
}

// ends waits for the end of a job, and checks that its status is true.
func (p *placeCampaign) ends(f *placedJob) {
	p.t.Helper()
	p.await(f, "none")
	if f.status == "completed" {
		return
	}
	p.counts.failed++
	if f.may == "" || !strings.HasPrefix(f.status, f.may) {
		p.errorf("%s is %q; it can be %q", f, f.status, f.may)
	}
}

// follow waits for the end of a job that counts, and checks its output.
func (p *placeCampaign) follow(f *placedJob) {
	p.t.Helper()
	p.ends(f)
	n := 0
	all := p.all(f.followed)
	for line := range strings.Lines(string(all)) {
		if !strings.HasSuffix(line, "\n") {
			break // cut by the end of the engine
		}
		if want := f.tag + " " + strconv.Itoa(n); strings.TrimRight(line, "\r\n") != want {
			p.errorf("%s has the line %q in place of %q", f, line, want)
			return
		}
		n++
	}
	if f.status == "completed" && n != f.lines {
		p.errorf("%s is %q with %d lines", f, f.status, n)
	}
}

// finish ends a dialogue, and checks which lines have come.
func (p *placeCampaign) finish(d *dialogue) {
	p.t.Helper()
	for deadline := time.Now().Add(longest); !d.ended(); {
		if time.Now().After(deadline) {
			p.t.Fatalf("round %s: %s does not end: %q", p.what, d, d.status)
		}
		if p.await(d.placedJob, "waiting_input"); d.ended() {
			break
		}
		r, err := p.Call(p.ctx(), "send_command_input", map[string]any{"job_id": d.id, "text": "end\n", "wait_seconds": 1})
		if err != nil && !errors.Is(err, client.ErrTool) {
			p.t.Fatalf("round %s: %v", p.what, err)
		}
		if strings.HasPrefix(r.Header("Input"), "not known") {
			p.learn(d)
		}
	}
	p.ends(d.placedJob)
	all := p.all(d.followed)
	var got []string
	for _, match := range gotLine.FindAllSubmatch(all, -1) { // a prompt can stand before it
		got = append(got, string(match[1]))
	}
	lost := slices.DeleteFunc(slices.Clone(d.taken), func(s string) bool { return slices.Contains(got, s) })
	more := slices.DeleteFunc(slices.Clone(got), func(s string) bool { return slices.Contains(d.taken, s) || slices.Contains(d.unsure, s) })
	seen := slices.Clone(got)
	slices.Sort(seen)
	if len(lost) > 0 && d.status == "completed" || len(more) > 0 || len(slices.Compact(seen)) != len(got) {
		p.errorf("%s has got %q; delivered are %q, and perhaps %q:\n%s", d, got, d.taken, d.unsure, all)
	}
}

// end ends the campaign, after which nothing is left.
func (p *placeCampaign) end() {
	p.t.Helper()
	p.what = "of the end"
	p.t.Logf("%+v", p.counts)
	if p.t.Failed() {
		return
	}
	f := &placedJob{followed: &followed{tag: newTag(), lines: 3, then: "ends"}}
	tool, args := p.call(f.followed)
	p.startThere(f, tool, args)
	p.follow(f)
	p.cmd.Process.Signal(syscall.SIGTERM) // a goodbye, after which the engine gives allocations back
	p.exit()
	p.answeredOnce()
	p.leaves("processes", func() (found []string) {
		for _, process := range p.left() {
			found = append(found, process.Program)
		}
		return found
	})
	p.leaves("processes there", func() (found []string) {
		for _, pid := range append(p.far.engines(), p.far.processes(dialCommand)...) {
			found = append(found, strconv.Itoa(pid))
		}
		return found
	})
	p.leaves("files of the socket", func() []string { return p.ofTheLiving(p.far.files()) })
	files := func(pattern string) func() []string {
		return func() []string {
			names, _ := filepath.Glob(pattern)
			return p.ofTheLiving(names)
		}
	}
	p.leaves("key files", func() (found []string) {
		for _, name := range files(filepath.Join(p.records(), "places", "*"))() {
			text, _ := os.ReadFile(name) // an error: it has gone
			found = append(found, name+": "+string(text))
		}
		return found
	})
	p.leaves("sockets", p.sockets)
	p.leaves("temporary files", files(filepath.Join(p.setting("TMPDIR"), "*")))
	for _, pattern := range []string{"scratch/*", "runs/*/.*"} {
		p.leaves("files of the state there", files(filepath.Join(p.far.home, ".local/state/async-repl/places-far/*", pattern)))
	}
	if p.sshd != nil {
		p.leaves("processes of sshd", processNames(p.t, p.sshd.Processes))
	}
	if p.cluster != nil {
		p.leaves("allocations", func() []string { return strings.Fields(p.cluster.Must(p.t, "squeue", "--noheader", "--format=%i")) })
		p.leaves("processes of Slurm", processNames(p.t, p.cluster.Processes))
	}
}

// ofTheLiving returns the files that no killed engine has left.
func (p *placeCampaign) ofTheLiving(names []string) []string {
	return slices.DeleteFunc(names, func(name string) bool {
		return slices.ContainsFunc(p.dead, func(key string) bool { return strings.Contains(name, key) })
	})
}

// processNames returns the processes of a list as texts.
func processNames(t testing.TB, list func() ([]procfs.Process, error)) func() []string {
	return func() (found []string) {
		for _, process := range must.Get(list())(t) {
			found = append(found, fmt.Sprint(process))
		}
		return found
	}
}

// leaves waits until nothing is left of a kind.
func (p *placeCampaign) leaves(what string, find func() []string) {
	p.t.Helper()
	var found []string
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); p.pause(5 * time.Millisecond) {
		if found = find(); len(found) == 0 {
			return
		}
	}
	p.errorf("left are %s: %q", what, found)
}
