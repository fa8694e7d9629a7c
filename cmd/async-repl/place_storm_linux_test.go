package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"asyncrepl/internal/mcp/client"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/polltest"
	"asyncrepl/jobs/jobstest"
)

// placeRounds is the number of rounds in the gate.
const placeRounds = 10

// The faults of a round. Each one comes at a random moment. The last one takes long, and is left out of few rounds.
var faults = []string{
	"the carrier is killed", "the carrier is paused for a moment", "the far engine is killed", "our engine is killed",
	"our front is killed", "the carrier is killed twice", "the carrier is paused for 20 s",
}

// askScript is a job that takes lines, and says which.
const askScript = `while read -r -p "$1? " line && [ "$line" != end ]; do echo "got $line"; done; echo bye`

// gotLine is what the job says of a line that it has taken.
var gotLine = regexp.MustCompile(`got (in-\d+)\r?\n`)

// The link, the carrier, the engine there, and ours and its front have faults at random moments. Each job there prints
// numbered lines or takes input: no line and no input is missing or there twice, no status is false, and at the end
// nothing is left on either side.
func TestPlaceFaultStorm(t *testing.T) {
	if testing.Short() {
		t.Skip("a storm")
	}
	notAgain(t)
	t.Parallel()
	rounds, seed := jobstest.Storm(t, placeRounds)
	for first := 0; first < rounds; first += campaignRounds {
		t.Run(strconv.Itoa(first), func(t *testing.T) {
			t.Parallel()
			p := newPlaceCampaign(t)
			for i := first; i < min(first+campaignRounds, rounds) && !t.Failed(); i++ {
				p.rand = rand.New(rand.NewPCG(seed, uint64(i)))
				p.round(i, rounds > placeRounds)
			}
			p.end()
			if t.Failed() {
				t.Logf("STORM_ROUNDS=%d STORM_SEED=%d repeats the choices", rounds, seed)
			}
		})
	}
}

// A placeCampaign is a workspace with a place, at which there is one fault after the other.
type placeCampaign struct {
	*campaign
	far *farMachine
}

func newPlaceCampaign(t *testing.T) *placeCampaign {
	far := newFarMachine(t)
	s := prepareFront(t)
	work := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(work, "count.sh"), []byte(countScript), 0o600))
	must.Do(t, os.WriteFile(filepath.Join(work, "ask.sh"), []byte(askScript), 0o600))
	file := filepath.Join(filepath.Dir(s.setting("REPL_STATE_DIR")), "places.json")
	text := must.Get(json.Marshal(map[string]any{"places": map[string]any{"far": map[string]any{
		"exec": []string{"/usr/bin/env", "HOME=" + far.home, "TMPDIR=" + far.tmp}, "workspace": work, "python": realPython(),
	}}}))(t)
	must.Do(t, os.WriteFile(file, text, 0o600))
	s.cmd.Env = append(s.cmd.Env, "REPL_PLACES="+file)
	p := &placeCampaign{&campaign{storm: &storm{started: s, tag: newTag()}}, far}
	p.come()
	return p
}

// A dialogue is a job that takes lines.
type dialogue struct {
	*followed
	taken  []string // the lines that have been delivered
	unsure []string // those of which nothing is known
}

// round has one fault.
func (p *placeCampaign) round(i int, long bool) {
	p.t.Helper()
	list := faults
	if !long {
		list = faults[:len(faults)-1]
	}
	fault := list[p.rand.IntN(len(list))]
	p.what = fmt.Sprintf("%d (%s)", i, fault)
	var counting []*followed
	for n := range 1 + p.rand.IntN(3) {
		f := &followed{tag: newTag(), lines: p.rand.IntN(5000), then: "ends", python: n == 0 && p.rand.IntN(2) == 0}
		tool, args := p.call(f)
		p.startThere(f, tool, args)
		counting = append(counting, f)
	}
	d := &dialogue{followed: &followed{tag: newTag()}}
	p.startThere(d.followed, "execute_command_async", map[string]any{"command": "bash ask.sh " + d.tag})
	p.await(d.followed, "waiting_input")
	for range p.rand.IntN(3) {
		p.say(d, nil)
	}
	p.pause(time.Duration(p.rand.ExpFloat64() * float64(50*time.Millisecond)))

	var killed bool
	hit := func() { killed = p.hit(fault) }
	if p.rand.IntN(2) == 0 {
		hit()
		hit = nil
	}
	p.say(d, hit) // the fault comes while the input is on its way, or has come before
	if fault == "our front is killed" {
		p.exit()
		p.come()
	}
	for _, f := range counting {
		p.follow(f, killed)
	}
	p.finish(d, killed)
	if fault == "our engine is killed" { // a front does not replace many engines one after the other
		p.lose()
		p.come()
	}
}

// startThere starts a job at the place.
func (p *placeCampaign) startThere(f *followed, tool string, args map[string]any) {
	p.t.Helper()
	args["wait_seconds"], args["on"] = 0, "far"
	delete(args, "keep")
	r := must.Get(p.Call(p.ctx(), tool, args))(p.t)
	if f.id = r.Header("Job ID"); f.id == "" || r.Header("Place") != "far" {
		p.t.Fatalf("round %s: the start of %s is answered with %s", p.what, f, r)
	}
}

// status returns a reply about a job. An engine that was killed is replaced by the next call.
func (p *placeCampaign) status(f *followed, wait float64) (r client.Reply) {
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
func (p *placeCampaign) await(f *followed, status string) client.Reply {
	p.t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if r := p.status(f, 1); f.ended() || strings.HasPrefix(f.status, status) && r.Header("Link") == "" {
			return r
		}
	}
	p.t.Fatalf("round %s: %s is %q, not %q", p.what, f, f.status, status)
	return ""
}

// hit makes a fault, and reports whether the engine there was killed.
func (p *placeCampaign) hit(fault string) (killed bool) {
	p.t.Helper()
	switch fault {
	case "the carrier is killed":
		p.signal(syscall.SIGKILL)
	case "the carrier is killed twice":
		p.signal(syscall.SIGKILL)
		p.pause(time.Duration(p.rand.IntN(300)) * time.Millisecond)
		p.signal(syscall.SIGKILL)
	case "the carrier is paused for a moment", "the carrier is paused for 20 s":
		p.signal(syscall.SIGSTOP)
		p.pause(map[bool]time.Duration{true: time.Second, false: 20 * time.Second}[fault == "the carrier is paused for a moment"])
		p.signal(syscall.SIGCONT)
	case "the far engine is killed":
		kill(p.t, p.far.engine())
		return true
	case "our engine is killed":
		kill(p.t, p.started.engine())
	case "our front is killed":
		p.cmd.Process.Kill()
	}
	return false
}

// signal sends a signal to the carriers, which are dial in the end.
func (p *placeCampaign) signal(sig syscall.Signal) {
	for _, pid := range p.far.processes(dialCommand) {
		syscall.Kill(pid, sig) // an error: it has ended
	}
}

// say sends a line to the job. While it is on its way, there is a fault if hit is not nil.
func (p *placeCampaign) say(d *dialogue, hit func()) {
	p.t.Helper()
	line := fmt.Sprintf("in-%d", len(d.taken)+len(d.unsure))
	call, err := p.Start("send_command_input", map[string]any{"job_id": d.id, "text": line + "\n", "wait_seconds": 0})
	if err != nil {
		if hit != nil {
			hit()
		}
		return // the front has been killed before
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
	case err != nil:
		if !errors.Is(err, client.ErrTool) || strings.Contains(err.Error(), "The server died") {
			d.unsure = append(d.unsure, line)
		}
	case strings.HasPrefix(input, "not delivered"):
	case strings.HasPrefix(input, "not known"):
		p.learn(d, line)
	case input == "":
		p.errorf("input is answered with %s", r)
	default:
		d.taken = append(d.taken, line)
	}
}

// learn waits until the status says what became of an input.
func (p *placeCampaign) learn(d *dialogue, line string) {
	p.t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		switch input := p.status(d.followed, 0.1).Header("Input"); {
		case d.ended(), input == "":
			d.unsure = append(d.unsure, line)
			return
		case strings.HasPrefix(input, "not delivered"):
			return
		case strings.HasPrefix(input, "delivered"):
			d.taken = append(d.taken, line)
			return
		}
	}
	p.errorf("nothing is ever known of %s to %s", line, d)
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
func (p *placeCampaign) ends(f *followed, killed bool) {
	p.t.Helper()
	p.await(f, "none")
	if f.status != "completed" && !(killed && strings.HasPrefix(f.status, "failed (the engine on far is gone")) {
		p.errorf("%s is %q; the engine there was killed: %t", f, f.status, killed)
	}
}

// follow waits for the end of a job that counts, and checks its output.
func (p *placeCampaign) follow(f *followed, killed bool) {
	p.t.Helper()
	p.ends(f, killed)
	n := 0
	all := p.all(f)
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
func (p *placeCampaign) finish(d *dialogue, killed bool) {
	p.t.Helper()
	for !d.ended() {
		if p.await(d.followed, "waiting_input"); d.ended() {
			break
		}
		r, err := p.Call(p.ctx(), "send_command_input", map[string]any{"job_id": d.id, "text": "end\n", "wait_seconds": 1})
		if err != nil && !errors.Is(err, client.ErrTool) {
			p.t.Fatalf("round %s: %v", p.what, err)
		}
		if strings.HasPrefix(r.Header("Input"), "not known") {
			p.learn(d, "end")
		}
	}
	p.ends(d.followed, killed)
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
	if p.t.Failed() {
		return
	}
	f := &followed{tag: newTag(), lines: 3, then: "ends"}
	tool, args := p.call(f)
	p.startThere(f, tool, args)
	p.follow(f, false)
	engine := p.started.engine()
	syscall.Kill(engine, syscall.SIGTERM)
	p.out.Close()
	p.stdin.Close()
	p.exit()
	p.leaves("processes there", func() (found []string) {
		for _, pid := range append(p.far.engines(), p.far.processes(dialCommand)...) {
			found = append(found, strconv.Itoa(pid))
		}
		return found
	})
	p.leaves("files of the socket", p.far.files)
	p.leaves("key files", func() []string {
		names, _ := filepath.Glob(filepath.Join(p.records(), "places", "*"))
		return names
	})
	p.leaves("sockets", p.sockets)
	for _, pattern := range []string{"scratch/*", "runs/*/.*"} {
		p.leaves("files of the state there", func() []string {
			names, _ := filepath.Glob(filepath.Join(p.far.home, ".local/state/async-repl/places-far/*", pattern))
			return names
		})
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
