package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"asyncrepl/internal/history"
	"asyncrepl/internal/output"
	"asyncrepl/internal/process"
	"asyncrepl/internal/sandbox"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/needtest"
	"asyncrepl/internal/test/racetest"
	"asyncrepl/jobs"
)

// A pastWorld is a state directory with the records of two servers that have ended in one workspace: one that
// was confined, whose jobs can have changed theirs, and one that was not.
type pastWorld struct {
	t         *testing.T
	dir       string // the directory above all others
	uid       int
	self      string // the path of the program
	workspace string
	token     string // a secret, which no command must print

	state   string // the state directory of the server that was confined
	run     string // the directory of its run
	id      string // the id of its job, whose output is in a file
	honest  string // the id of the job of the server that was not confined
	foreign string // the directory of a run elsewhere, whose job has the id, and prints the token
}

// ordinaryUser is the id of an ordinary user, if the tests run as root.
const ordinaryUser = 54321

// newPastWorld makes the records. Self is a copy of the program that each user can run.
func newPastWorld(t *testing.T, uid int, self string) *pastWorld {
	t.Helper()
	dir := must.Get(os.MkdirTemp("/tmp", "past-"))(t)
	t.Cleanup(func() { os.RemoveAll(dir) })
	w := &pastWorld{t: t, dir: dir, uid: uid, self: self, workspace: filepath.Join(dir, "work"), token: "hunter2"}
	must.Do(t, errors.Join(os.Chmod(dir, 0o755), os.Mkdir(w.workspace, 0o755), os.Mkdir(w.path("run"), 0o700)))
	set, err := parseSettings([]string{"-state-dir", w.path("state")}, func(string) string { return "" }, w.workspace, false)
	must.Do(t, err)
	config, _, err := set.sandboxConfig()
	must.Do(t, err)
	w.state = sandbox.StateOf(w.path("state"), config.Identity)
	w.run, w.id = w.record(w.state, "confined", "line\n")
	_, w.honest = w.record(w.path("state"), "honest", "truth\n")
	w.foreign, _ = w.record(w.path("outside"), w.token, w.token+"\n")
	must.Do(t, os.WriteFile(w.path("outside/secret"), []byte(w.token), 0o600))
	w.own()
	return w
}

func (w *pastWorld) path(name string) string { return filepath.Join(w.dir, name) }

// in returns the path of a file of the run.
func (w *pastWorld) in(name string) string { return filepath.Join(w.run, name) }

// own gives all files to the user.
func (w *pastWorld) own() {
	if w.uid != os.Getuid() {
		filepath.WalkDir(w.dir, func(path string, _ fs.DirEntry, _ error) error { return os.Lchown(path, w.uid, w.uid) }) // an error: the test says what is missing
	}
}

// A printing runner prints much of a text.
type printing string

func (p printing) Run(_ context.Context, port *jobs.Port) jobs.Outcome {
	port.Begin()
	port.Write(output.TTY, []byte(strings.Repeat(string(p), 2000)))
	return jobs.Outcome{Receipt: jobs.Receipt{End: jobs.Exited}}
}

// record runs a job in a server that ends, and returns the directory of its run and its id.
func (w *pastWorld) record(state, title, text string) (run, id string) {
	w.t.Helper()
	store := history.Open(history.Config{
		State: state, Workspace: w.workspace, Version: "test", OnScratch: func(string) {}, Log: slog.New(slog.DiscardHandler),
		Mark: func() string { return "" }, Kill: func(string) ([]process.Marked, error) { return nil, nil },
	})
	registry := jobs.NewRegistry(jobs.Config{Store: store, Logs: output.NewStore(output.Config{Cap: 1 << 20, Dir: store.Dir})})
	j := must.Get(registry.Start(jobs.Spec{Kind: jobs.Shell, Title: title}, printing(text)))(w.t)
	<-j.Done()
	run = must.Get(store.Dir())(w.t)
	registry.Close(jobs.Stop{By: jobs.Shutdown, From: jobs.Kill})
	store.Close()
	return run, j.ID()
}

// A pastResult is what a command has done.
type pastResult struct {
	out    string
	code   int
	killed bool // the command did not end in time
}

const (
	// pastPatience bounds one command. A hang is what it is for, and the machine can be busy.
	pastPatience = 60 * time.Second
	// pastMemory is what a command can have, in bytes: one that needs more fails.
	pastMemory = 640 << 20
)

// person runs a command as the user, from the workspace.
func (w *pastWorld) person(args ...string) pastResult {
	return w.personFor(pastPatience, args...)
}

func (w *pastWorld) personFor(limit time.Duration, args ...string) (r pastResult) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), limit)
	defer cancel()
	line := append([]string{w.self}, args...)
	if !racetest.Enabled {
		line = append([]string{"sh", "-c", fmt.Sprintf(`ulimit -d %d && exec "$0" "$@"`, pastMemory>>10)}, line...)
	}
	cmd := exec.CommandContext(ctx, line[0], line[1:]...)
	cmd.Dir = w.workspace
	cmd.Env = []string{"HOME=" + w.dir, "REPL_STATE_DIR=" + w.path("state"), "XDG_RUNTIME_DIR=" + w.path("run"), "PATH=/usr/bin:/bin", "SECRET=" + w.token, "GORACE=atexit_sleep_ms=0"}
	if w.uid != os.Getuid() {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(w.uid), Gid: uint32(w.uid)}}
	}
	var out limitedBuffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &out, patience
	err := cmd.Run()
	if err != nil && !errors.As(err, new(*exec.ExitError)) {
		w.t.Fatal(err)
	}
	return pastResult{out.String(), cmd.ProcessState.ExitCode(), ctx.Err() != nil}
}

// A limitedBuffer keeps the first MiB that is written to it.
type limitedBuffer struct{ bytes.Buffer }

func (b *limitedBuffer) Write(p []byte) (int, error) {
	b.Buffer.Write(p[:min(len(p), max(0, 1<<20-b.Len()))])
	return len(p), nil
}

// checks runs the commands that read records, and checks what must hold whatever jobs have made of theirs:
// each ends, takes little memory, prints nothing that a terminal obeys and no secret, and shows the jobs of others.
func (w *pastWorld) checks(endless, hangs bool, more ...[]string) {
	w.t.Helper()
	commands := append([][]string{{"ps", "--all"}, {"ps", "--all", "--json"}, {"logs", w.id}, {"logs", w.honest}, {"wait", w.honest[:20]}}, more...)
	for _, args := range commands {
		began := time.Now()
		limit, what := pastPatience, strings.Join(args, " ")
		if endless && what == "logs "+w.id {
			limit = 2 * time.Second
		}
		r := w.personFor(limit, args...)
		w.t.Log(what, time.Since(began))
		if r.killed && limit == pastPatience || hangs && strings.Contains(r.out, "does not answer") {
			w.t.Errorf("%s does not end", what)
		}
		if strings.Contains(r.out, w.token) {
			w.t.Errorf("%s prints a secret: %.2000q", what, r.out)
		}
		if strings.Contains(r.out, "panic: ") || strings.Contains(r.out, "goroutine ") {
			w.t.Errorf("%s fails: %.2000s", what, r.out)
		}
		if i := strings.IndexFunc(r.out, func(r rune) bool { return r != '\n' && unicode.IsControl(r) }); i >= 0 {
			w.t.Errorf("%s prints %q", what, r.out[max(0, i-50):min(len(r.out), i+50)])
		}
		ok := utf8.ValidString(r.out)
		switch {
		case what == "ps --all":
			ok = r.code == 0 && strings.Contains(r.out, w.honest[:14]) && strings.Contains(r.out, "honest")
		case args[0] == "ps":
			ok = r.code == 0 && json.Valid([]byte(r.out)) && strings.Contains(r.out, w.honest)
		case what == "logs "+w.honest:
			ok = r.code == 0 && r.out == strings.Repeat("truth\n", 2000)
		case what == "wait "+w.honest[:20]:
			ok = r.code == 0 && r.out == w.honest+" completed\n"
		}
		if !ok {
			w.t.Errorf("%s: exit %d, %.2000q", what, r.code, r.out)
		}
	}
}

// replace puts something in the place of a file or directory.
func (w *pastWorld) replace(path string, with func(path string) error) {
	w.t.Helper()
	must.Do(w.t, errors.Join(os.RemoveAll(path), with(path)))
}

func linkTo(target string) func(string) error {
	return func(path string) error { return os.Symlink(target, path) }
}

func pipe(path string) error { return unix.Mkfifo(path, 0o600) }

// sparse makes a file of zeros that takes no room.
func sparse(size int64) func(string) error {
	return func(path string) error {
		return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, size))
	}
}

// journal returns the text of the journal.
func (w *pastWorld) journal() []byte { return must.Get(os.ReadFile(w.in("journal.jsonl")))(w.t) }

// rewrite replaces a text in the journal.
func (w *pastWorld) rewrite(old, new string) {
	w.t.Helper()
	text := string(w.journal())
	if !strings.Contains(text, old) {
		w.t.Fatalf("the journal has no %s: %s", old, text)
	}
	must.Do(w.t, os.WriteFile(w.in("journal.jsonl"), []byte(strings.ReplaceAll(text, old, new)), 0o600))
}

// adds adds lines to the journal.
func (w *pastWorld) adds(lines ...string) {
	w.t.Helper()
	must.Do(w.t, os.WriteFile(w.in("journal.jsonl"), append(w.journal(), strings.Join(lines, "\n")+"\n"...), 0o600))
}

// line returns a line about a job with more in its record, and after it.
func (w *pastWorld) line(event, id, record, after string) string {
	return fmt.Sprintf(`{"event":%q,"id":%q,"record":{"version":1,"id":%[2]q,"kind":"shell","title":"t","status":"completed","created":%[3]q,"started":%[3]q,"ended":%[3]q,"receipt":{"end":"exited"},"output":{"cursor":0,"final":0}%s}%s}`,
		event, id, time.Now().UTC().Format(time.RFC3339Nano), record, after)
}

// A hostileRecord is what jobs have made of the records of a server that confined them.
type hostileRecord struct {
	name    string
	make    func(w *pastWorld)
	leaks   string                             // this file of the run shows the secret to a reader that follows links
	hangs   string                             // a reader that opens this file waits
	rounds  int                                // how often the commands run; 0 is once
	heavy   bool                               // making the record takes seconds
	endless bool                               // the output of the job is as long as its file says
	shows   func(w *pastWorld, ps string) bool // what ps --all must show; nil: anything
	more    [][]string                         // further commands
}

var hostileRecords = []hostileRecord{
	{name: "nothing", make: func(w *pastWorld) {}, shows: func(w *pastWorld, ps string) bool {
		return strings.Contains(ps, w.id[:14]+"  completed") && strings.Contains(ps, "confined") && w.person("logs", w.id[:20]).out == strings.Repeat("line\n", 2000)
	}},
	{name: "link for the journal", leaks: "journal.jsonl", make: func(w *pastWorld) {
		w.replace(w.in("journal.jsonl"), linkTo(filepath.Join(w.foreign, "journal.jsonl")))
	}},
	{name: "relative link for the journal", leaks: "journal.jsonl", make: func(w *pastWorld) {
		w.replace(w.in("journal.jsonl"), linkTo(must.Get(filepath.Rel(w.run, filepath.Join(w.foreign, "journal.jsonl")))(w.t)))
	}},
	{name: "link for run.json", make: func(w *pastWorld) { w.replace(w.in("run.json"), linkTo(filepath.Join(w.foreign, "run.json"))) }},
	{name: "link for the lock", make: func(w *pastWorld) { w.replace(w.in("lock"), linkTo(filepath.Join(w.foreign, "lock"))) }},
	{name: "link for the run", leaks: "journal.jsonl", make: func(w *pastWorld) { w.replace(w.run, linkTo(w.foreign)) }},
	{name: "link for the workspace", leaks: "../FOREIGN/journal.jsonl", make: func(w *pastWorld) {
		w.replace(filepath.Dir(w.run), linkTo(filepath.Dir(w.foreign)))
	}},
	{name: "link for all runs", leaks: "../FOREIGN/journal.jsonl", make: func(w *pastWorld) {
		w.replace(filepath.Dir(filepath.Dir(w.run)), linkTo(filepath.Dir(filepath.Dir(w.foreign))))
	}},
	{name: "link for the files of a job", leaks: "JOB/output.log", make: func(w *pastWorld) {
		other := must.Get(filepath.Glob(filepath.Join(w.foreign, "*", "output.log")))(w.t)
		w.replace(w.in(w.id), linkTo(filepath.Dir(other[0])))
	}},
	{name: "link for the output", leaks: "JOB/output.log", make: func(w *pastWorld) { w.replace(w.in(w.id+"/output.log"), linkTo(w.path("outside/secret"))) }},
	{name: "link for the output, of many steps", leaks: "JOB/output.log", make: func(w *pastWorld) {
		must.Do(w.t, os.Symlink("../../../../../../../", w.in("up")))
		w.replace(w.in(w.id+"/output.log"), linkTo("../up/outside/secret"))
	}},
	{name: "link to /proc for the output", make: func(w *pastWorld) { w.replace(w.in(w.id+"/output.log"), linkTo("/proc/self/environ")) }},
	{name: "link to a descriptor for the output", make: func(w *pastWorld) { w.replace(w.in(w.id+"/output.log"), linkTo("/proc/self/fd/0")) }},
	{name: "link to the root of /proc for the run", leaks: "journal.jsonl", make: func(w *pastWorld) { w.replace(w.run, linkTo("/proc/self/root"+w.foreign)) }},
	{name: "link to /dev/zero for the labels", make: func(w *pastWorld) { w.replace(w.in(w.id+"/output.streams"), linkTo("/dev/zero")) }},
	{name: "link to itself", make: func(w *pastWorld) { w.replace(w.in("journal.jsonl"), linkTo("journal.jsonl")) }},
	{name: "pipe for the journal", hangs: "journal.jsonl", make: func(w *pastWorld) { w.replace(w.in("journal.jsonl"), pipe) }},
	{name: "pipe for run.json", hangs: "run.json", make: func(w *pastWorld) { w.replace(w.in("run.json"), pipe) }},
	{name: "pipe for the lock", hangs: "lock", make: func(w *pastWorld) { w.replace(w.in("lock"), pipe) }},
	{name: "pipe for the output", hangs: "JOB/output.log", make: func(w *pastWorld) { w.replace(w.in(w.id+"/output.log"), pipe) }},
	{name: "pipe for the run", make: func(w *pastWorld) { w.replace(w.run, pipe) }},
	{name: "pipe for the workspace", make: func(w *pastWorld) { w.replace(filepath.Dir(w.run), pipe) }},
	{name: "pipe for all runs", make: func(w *pastWorld) { w.replace(filepath.Dir(filepath.Dir(w.run)), pipe) }},
	{name: "pipe for the files of a job", make: func(w *pastWorld) { w.replace(w.in(w.id), pipe) }},
	{name: "socket for the journal", make: func(w *pastWorld) {
		w.replace(w.in("journal.jsonl"), func(path string) error {
			l, err := net.Listen("unix", w.path("s"))
			if err == nil {
				w.t.Cleanup(func() { l.Close() })
				err = os.Rename(w.path("s"), path)
			}
			return err
		})
	}},
	{name: "device for the output", make: func(w *pastWorld) {
		w.replace(w.in(w.id+"/output.log"), func(path string) error {
			err := unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(1, 5)))
			needtest.Right(w.t, "make a device", err, nil)
			return nil
		})
	}},
	{name: "leases on all files", hangs: "journal.jsonl", make: func(w *pastWorld) {
		for _, name := range []string{"run.json", "lock", "journal.jsonl", w.id + "/output.log", w.id + "/output.streams"} {
			f := must.Get(os.OpenFile(w.in(name), os.O_RDWR, 0))(w.t)
			w.t.Cleanup(func() { f.Close() })
			if _, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK); name == "journal.jsonl" {
				needtest.Unless(w.t, "no leases in this file system", err, unix.EINVAL, unix.ENOLCK)
			}
		}
	}},
	{name: "line of 64 MiB", heavy: true, make: func(w *pastWorld) { w.adds(w.line("end", w.id, "", `,"x":"`+strings.Repeat("x", 64<<20)+`"`)) }},
	{name: "journal of a terabyte", make: func(w *pastWorld) { w.replace(w.in("journal.jsonl"), sparse(1<<40)) }},
	{name: "many journals of zeros", heavy: true, make: func(w *pastWorld) {
		w.copies(1000, func(run string) { must.Do(w.t, os.Truncate(filepath.Join(run, "journal.jsonl"), 255<<20)) })
	}},
	{name: "journals of ends without starts", heavy: true, make: func(w *pastWorld) {
		var b strings.Builder
		for i := range 20_000 {
			fmt.Fprintf(&b, `{"event":"end","id":"01KAAAAAAAAAAAAAAAAAA%05d","x":"%s"}`+"\n", i, strings.Repeat("x", 900))
		}
		w.copies(20, func(run string) {
			must.Do(w.t, os.WriteFile(filepath.Join(run, "journal.jsonl"), []byte(b.String()), 0o600))
		})
	}},
	{name: "output of a terabyte", heavy: true, make: func(w *pastWorld) {
		must.Do(w.t, os.Truncate(w.in(w.id+"/output.log"), 1<<40))
		w.rewrite(`"final":10000`, `"final":-1`)
	}, endless: true, more: [][]string{{"wait", "ID"}}},
	{name: "labels of a terabyte", make: func(w *pastWorld) { must.Do(w.t, os.Truncate(w.in(w.id+"/output.streams"), 1<<40)) }},
	{name: "labels of a terabyte that are no zeros where they are looked for", make: func(w *pastWorld) {
		f := must.Get(os.OpenFile(w.in(w.id+"/output.streams"), os.O_RDWR, 0))(w.t)
		defer f.Close()
		must.Do(w.t, f.Truncate(1<<40))
		for _, high := range []int64{1<<37 - 5, 16 << 20} { // a binary search takes this path
			for low := int64(0); low < high; {
				middle := (low + high) / 2
				record := binary.LittleEndian.AppendUint64(nil, 1<<16|0x80<<8|7)
				must.Get(f.WriteAt(record, 40+middle*8))(w.t)
				low = middle + 1
			}
			must.Get(f.WriteAt(binary.LittleEndian.AppendUint64(nil, 20_000<<16), 40+(high-256)*8))(w.t)
		}
		w.rewrite(`"final":10000`, `"final":-1`)
	}, more: [][]string{{"wait", "ID"}}},
	{name: "deep JSON", make: func(w *pastWorld) {
		w.adds(w.line("end", w.id, `,"x":`+strings.Repeat("[", 1<<20)+strings.Repeat("]", 1<<20), ""), w.line("amend", w.id, `,"x":`+strings.Repeat(`{"a":`, 5000)+"1"+strings.Repeat("}", 5000), ""))
	}},
	{name: "JSON that becomes large", heavy: true, make: func(w *pastWorld) {
		n := 1 << 20
		for i := range 8 {
			id := fmt.Sprintf("%s%05d", w.id[:21], i)
			w.adds(w.line("end", id, `,"listening":[`+strings.Repeat("{},", n)+"{}]", ""), w.line("begin", id, "", ""))
			w.adds(w.line("amend", id, "", `,"displays":[`+strings.Repeat(`{"forms":[{}]},`, n/5)+`{"forms":[{}]}]`))
		}
	}},
	{name: "many fields that no version has", heavy: true, make: func(w *pastWorld) {
		var b strings.Builder
		for i := range 300_000 {
			fmt.Fprintf(&b, `,"%d":1`, i)
		}
		w.adds(w.line("amend", w.id, b.String(), ""))
	}},
	{name: "many runs", heavy: true, make: func(w *pastWorld) {
		for i := range 12_000 {
			must.Do(w.t, os.Mkdir(filepath.Join(filepath.Dir(w.run), fmt.Sprintf("01KAAAAAAAAAAAAAAAA%07d", i)), 0o700))
		}
	}},
	{name: "many workspaces", heavy: true, make: func(w *pastWorld) {
		base := filepath.Base(filepath.Dir(w.run))
		for i := range 12_000 {
			must.Do(w.t, os.Mkdir(filepath.Join(w.state, "runs", fmt.Sprint(i, "-", base[len(base)-16:])), 0o700))
		}
	}},
	{name: "names with escapes", make: func(w *pastWorld) {
		for _, dir := range []string{w.run, filepath.Dir(w.run), w.state, filepath.Join(w.state, "runs"), w.in(w.id)} {
			for _, name := range []string{"\x1b[2J\x1b]0;x\a", "new\nline", "\xff\xfe", "\u009b2J", strings.Repeat("x", 250)} {
				must.Do(w.t, os.Mkdir(filepath.Join(dir, name), 0o700))
			}
		}
	}},
	{name: "escapes in a record", make: func(w *pastWorld) {
		const bad = "\x1b[2J\x1b]0;x\a\u009b31m\u202e\r\nENGINE 1"
		text := strings.Trim(string(must.Get(json.Marshal(bad))(w.t)), `"`)
		w.rewrite(`"title":"confined"`, `"title":"`+text+`"`)
		w.rewrite(`"kind":"shell"`, `"kind":"`+text+`"`)
		w.adds(w.line("amend", w.id, `,"session":"`+text+`","status":"`+text+`","receipt":{"end":"raised","detail":"`+text+`","signal":"`+text+`","notes":["`+text+`"]}`, ""))
	}, shows: func(w *pastWorld, ps string) bool {
		return strings.Contains(ps, w.id[:14]) && !strings.Contains(ps, "\nENGINE 1")
	}, more: [][]string{{"wait", "ID"}, {"cancel", "ID"}, {"send", "ID", "x"}}},
	{name: "escapes in the version", make: func(w *pastWorld) {
		must.Do(w.t, os.WriteFile(w.in("run.json"), []byte(`{"format":7,"version":"\u001b[2J"}`), 0o600))
	}},
	{name: "id that is a path", make: func(w *pastWorld) {
		id := "../../../../../../outside/"
		w.adds(strings.ReplaceAll(w.line("end", w.id, "", ""), w.id, id))
		must.Do(w.t, os.WriteFile(w.path("outside/output.log"), []byte(w.token), 0o600))
	}},
	{name: "id that JSON makes shorter", make: func(w *pastWorld) {
		w.adds(strings.ReplaceAll(w.line("end", w.id, "", ""), w.id, `\u0030\u0031\u0032\u003399`))
	}},
	{name: "id of another job", make: func(w *pastWorld) {
		w.adds(w.line("begin", w.honest, `,"title":"`+w.token+`"`, ""), w.line("end", w.honest, `,"title":"`+w.token+`"`, `,"output":[{"stream":0,"text":"`+w.token+`"}]`))
	}},
	{name: "many jobs of the future", heavy: true, make: func(w *pastWorld) {
		var lines []string
		for i := range 2000 {
			id := fmt.Sprintf("7ZZZZZZZZZZZZZZZZZZZZ%05d", i)
			lines = append(lines, w.line("begin", id, "", ""), w.line("end", id, "", ""))
		}
		w.adds(lines...)
	}},
	{name: "display without a form", make: func(w *pastWorld) { w.adds(w.line("amend", w.id, "", `,"displays":[{"number":1,"title":"x"}]`)) }},
	{name: "huge terminal", make: func(w *pastWorld) {
		w.adds(w.line("amend", w.id, `,"terminal":{"rows":4294967296,"columns":4294967296},"output":{"cursor":10000,"final":10000}`, ""))
	},
		more: [][]string{{"logs", "--view", "screen", "ID"}}},
	{name: "huge terminal of a job without an end", make: func(w *pastWorld) {
		w.rewrite(`"event":"end"`, `"event":"x"`)
		w.adds(w.line("resize", w.id, `,"terminal":{"rows":4294967296,"columns":4294967296}`, ""))
	},
		more: [][]string{{"logs", "--view", "screen", "ID"}}},
	{name: "impossible output", make: func(w *pastWorld) {
		for i, text := range []string{
			`{"cursor":-1,"final":9223372036854775807}`, `{"cursor":9223372036854775807,"final":9223372036854775807}`, `{"cursor":9223372036854775807,"final":-9}`,
			`{"cursor":100,"final":100,"gaps":[{"from":50,"to":10}]}`, `{"cursor":100,"final":100,"gaps":[{"from":-9223372036854775808,"to":9223372036854775807}]}`,
		} {
			id := fmt.Sprintf("%s%05d", w.id[:21], i)
			w.adds(w.line("begin", id, `,"output":`+text, ""), w.line("end", id, `,"output":`+text, ""))
		}
	}},
	{name: "impossible times", make: func(w *pastWorld) {
		w.adds(w.line("amend", w.id, `,"ended":"9999-12-31T23:59:59Z","started":"0001-01-01T00:00:01Z","timeout_ns":9223372036854775807`, ""))
	}},
	{name: "times that are no JSON in UTC", make: func(w *pastWorld) {
		w.adds(w.line("amend", w.id, `,"created":"0000-01-01T00:00:00+14:00"`, ""), w.line("begin", "7"+w.id[1:], `,"created":"9999-12-31T23:59:59-14:00"`, ""))
	}},
	{name: "run of another workspace", make: func(w *pastWorld) {
		text := string(must.Get(os.ReadFile(w.in("run.json")))(w.t))
		must.Do(w.t, os.WriteFile(w.in("run.json"), []byte(strings.ReplaceAll(text, w.workspace, "/etc")), 0o600))
		must.Do(w.t, os.CopyFS(filepath.Join(w.state, "runs", "etc-0123456789abcdef"), os.DirFS(filepath.Dir(w.foreign))))
	}},
	{name: "huge run.json", make: func(w *pastWorld) { w.replace(w.in("run.json"), sparse(1<<40)) }},
	{name: "closed files", make: func(w *pastWorld) {
		for _, name := range []string{"journal.jsonl", "run.json", w.id} {
			must.Do(w.t, os.Chmod(w.in(name), 0))
		}
	}},
	{name: "closed state directory", make: func(w *pastWorld) {
		must.Do(w.t, os.Chmod(w.state, 0))
		w.t.Cleanup(func() { os.Chmod(w.state, 0o700) })
	}},
	{name: "journal that becomes a link", rounds: 5, make: func(w *pastWorld) {
		w.swaps(w.in("journal.jsonl"), linkTo(filepath.Join(w.foreign, "journal.jsonl")))
	}},
	{name: "journal that becomes a pipe", rounds: 5, make: func(w *pastWorld) { w.swaps(w.in("journal.jsonl"), pipe) }},
	{name: "run that becomes a link", rounds: 5, make: func(w *pastWorld) { w.swaps(w.run, linkTo(w.foreign)) }},
	{name: "runs that become a link", rounds: 5, make: func(w *pastWorld) {
		w.swaps(filepath.Join(w.state, "runs"), linkTo(w.path("outside/runs")))
	}},
	{name: "output that becomes a link", rounds: 5, make: func(w *pastWorld) {
		w.swaps(w.in(w.id+"/output.log"), linkTo(w.path("outside/secret")))
	}},
	{name: "files of a job that become a link", rounds: 5, make: func(w *pastWorld) {
		other := must.Get(filepath.Glob(filepath.Join(w.foreign, "*", "output.log")))(w.t)
		w.swaps(w.in(w.id), linkTo(filepath.Dir(other[0])))
	}},
	{name: "files that grow and shrink", rounds: 5, make: func(w *pastWorld) {
		text := w.journal()
		w.goesOn(func() {
			os.Truncate(w.in("journal.jsonl"), int64(len(text)/2))
			os.Truncate(w.in(w.id+"/output.log"), 1000)
			os.WriteFile(w.in("journal.jsonl"), append(bytes.Repeat([]byte("x"), 100_000), text...), 0o600)
			os.Truncate(w.in(w.id+"/output.log"), 1<<20)
		})
	}},
	{name: "display of a terabyte", make: func(w *pastWorld) {
		w.adds(w.line("amend", w.id, "", `,"displays":[{"number":1,"title":"x","picture":true,"forms":[{"mime_type":"image/png","size":1,"attachment":0}]}]`))
		must.Do(w.t, sparse(1<<40)(w.in(w.id+"/display-0")))
	}},
}

// swaps makes something beside a path, and swaps both again and again until the test ends.
func (w *pastWorld) swaps(path string, with func(path string) error) {
	w.t.Helper()
	other := w.path("swapped")
	must.Do(w.t, with(other))
	w.goesOn(func() { unix.Renameat2(unix.AT_FDCWD, path, unix.AT_FDCWD, other, unix.RENAME_EXCHANGE) })
}

// goesOn does something again and again until the test ends.
func (w *pastWorld) goesOn(do func()) {
	var going sync.WaitGroup
	var ends atomic.Bool
	going.Go(func() { // joined by the end of the test
		for !ends.Load() {
			do()
		}
	})
	w.t.Cleanup(func() { ends.Store(true); going.Wait() })
}

// copies makes copies of the run, and changes each.
func (w *pastWorld) copies(n int, change func(run string)) {
	w.t.Helper()
	for i := range n {
		run := filepath.Join(filepath.Dir(w.run), fmt.Sprintf("01KAAAAAAAAAAAAAAAAAA%05d", i))
		must.Do(w.t, os.Mkdir(run, 0o700))
		for _, name := range []string{"run.json", "lock", "journal.jsonl"} {
			must.Do(w.t, os.WriteFile(filepath.Join(run, name), must.Get(os.ReadFile(w.in(name)))(w.t), 0o600))
		}
		change(run)
	}
}

// selfForAll copies the program to where each user can run it.
func selfForAll(t *testing.T) string {
	t.Helper()
	dir := must.Get(os.MkdirTemp("/tmp", "past-self-"))(t)
	t.Cleanup(func() { os.RemoveAll(dir) })
	self := filepath.Join(dir, "async-repl.test")
	must.Do(t, errors.Join(os.Chmod(dir, 0o755), os.WriteFile(self, must.Get(os.ReadFile(ownProgram(t)))(t), 0o755)))
	return self
}

// asUsers calls f as root and as an ordinary user if the tests run as root, and otherwise as their user. Short
// tests leave root out.
func asUsers(t *testing.T, f func(t *testing.T, uid int)) {
	t.Helper()
	if os.Getuid() != 0 {
		f(t, os.Getuid())
		return
	}
	if !testing.Short() {
		t.Run("root", func(t *testing.T) { f(t, 0) })
	}
	t.Run("ordinary", func(t *testing.T) { f(t, ordinaryUser) })
}

// Whatever the jobs of a confined server have made of its records, a person's commands are safe.
func TestHostileRecords(t *testing.T) {
	overStdio(t, "the commands of a person are the same")
	notAgain(t)
	t.Parallel()
	self := selfForAll(t)
	asUsers(t, func(t *testing.T, uid int) {
		for _, hostile := range hostileRecords {
			t.Run(hostile.name, func(t *testing.T) {
				if lasts := hostile.heavy || hostile.rounds > 0; lasts && (testing.Short() || uid == 0) {
					t.Skip("it takes seconds, and the ordinary user has shown it")
				}
				w := newPastWorld(t, uid, self)
				if os.Getuid() == 0 && uid != 0 {
					defer w.own()
				}
				id := w.id
				hostile.make(w)
				w.own()
				naive := func(name string) string {
					return w.in(strings.NewReplacer("JOB", w.id, "FOREIGN", filepath.Base(w.foreign)).Replace(name))
				}
				if hostile.leaks != "" && !bytes.Contains(must.Get(os.ReadFile(naive(hostile.leaks)))(t), []byte(w.token)) {
					t.Error("what the test is about has no secret")
				}
				if hostile.hangs != "" && exec.Command("timeout", "0.2", "cat", naive(hostile.hangs)).Run() == nil {
					t.Error("what the test is about does not wait")
				}
				var more [][]string
				for _, args := range hostile.more {
					args = append([]string{}, args...)
					for i := range args {
						if args[i] == "ID" {
							args[i] = id
						}
					}
					more = append(more, args)
				}
				for range max(1, hostile.rounds) {
					w.checks(hostile.endless, hostile.hangs != "", more...)
				}
				if hostile.shows != nil {
					if ps := w.person("ps", "--all").out; !hostile.shows(w, ps) {
						t.Errorf("ps --all shows\n%s", ps)
					}
				}
			})
		}
	})
}
