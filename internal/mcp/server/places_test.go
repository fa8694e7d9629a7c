package server

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"asyncrepl/internal/engine"
	"asyncrepl/internal/mcp/rawjson"
	"asyncrepl/internal/reply/overview"
	"asyncrepl/internal/test/polltest"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// takeOn are the tools that can name a place.
var takeOn = []string{"create_session", "execute_command_async", "execute_python", "install_package_async"}

// With places, four tools take on, and nothing else of the list differs.
func TestToolListNamesThePlaces(t *testing.T) {
	t.Parallel()
	listOf := func(places ...string) (tools []map[string]any, bytes int) {
		w := newWorld(t)
		w.config.Toolsets = toolsets
		if places != nil {
			w.withPlaces(places...)
		}
		raw := w.dial(engine.Scope{}).request("tools/list", nil).Result
		var list struct{ Tools []map[string]any }
		if err := json.Unmarshal(raw, &list); err != nil {
			t.Fatal(err)
		}
		return list.Tools, len(raw)
	}
	plain, before := listOf()
	with, after := listOf("gpu", "cluster")
	if more := after - before; more > 60*len(takeOn) {
		t.Errorf("the list is longer by %d bytes", more)
	}
	var got []string
	for _, tool := range with {
		properties := tool["inputSchema"].(map[string]any)["properties"].(map[string]any)
		if on, ok := properties["on"]; ok {
			got = append(got, tool["name"].(string))
			if want := map[string]any{"type": "string", "description": "place: cluster, gpu"}; !cmp.Equal(on, any(want)) {
				t.Errorf("on is described as %v", on)
			}
		}
		delete(properties, "on")
	}
	if !slices.Equal(got, takeOn) {
		t.Errorf("%v take on", got)
	}
	if diff := cmp.Diff(plain, with); diff != "" {
		t.Errorf("the rest of the list differs: %s", diff)
	}
	_, after = listOf(strings.Repeat("x", 64), strings.Repeat("y", 64))
	if more := after - before; more > 90*len(takeOn) {
		t.Errorf("with long names the list is longer by %d bytes", more)
	}
	w := newWorld(t)
	if got := w.dial(engine.Scope{}).refused("execute_python", given{"code": "x", "on": "gpu"}); !strings.HasPrefix(got, "Unknown parameter: on. ") {
		t.Errorf("without places: %q", got)
	}
}

// Jobs that a place runs have the replies of jobs here, and each reply names the place.
func TestRepliesAtAPlaceReadAsInTheExamples(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"python ends within its grace", "the same question again", "python asks twice", "typed ahead", "a list of those that ask nothing",
		"a pipe takes what is sent", "cancel", "cancel what was left", "cancel what can't be checked", "install", "notes", "list", "search",
		"wait for any", "wait for one that asks", "wait for a line", "wait for a line and read it", "framing is ours",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, _, c := dialPlaces(t)
			var p plainer
			for i, s := range replies[name] {
				args := maps.Clone(s.args)
				if slices.Contains(takeOn, s.tool) {
					args["on"] = "gpu"
				}
				if s.tool == "check_python_status" {
					args = given{"session": "gpu"}
				}
				got := c.call(s.tool, p.real(t, args))
				if n, jobs := strings.Count(got, "\nPlace: gpu\n"), strings.Count(got, "\nStatus: "); n < min(1, jobs) {
					t.Errorf("step %d, %s: the place is named %d times in\n%s", i+1, s.tool, n, got)
				}
				if s.want == "" {
					p.plain(got)
					jobstest.Prints(t, w.job(got), s.prints)
					continue
				}
				if diff := cmp.Diff(withoutPlace.Replace(s.want), withoutPlace.Replace(p.plain(got))); diff != "" {
					t.Fatalf("step %d, %s: -want +got\n%s", i+1, s.tool, diff)
				}
			}
			for record := range w.jobs.All(jobs.Filter{}) {
				if record.Place != "gpu" {
					t.Errorf("job %s of %q ran here", record.ID, record.Title)
				}
			}
		})
	}
}

// withoutPlace leaves out what differs at the place gpu.
var withoutPlace = strings.NewReplacer("\nPlace: gpu", "", " at gpu", "", "\nSession: new", "")

// The call that makes a session can name its place. Later calls go there by themselves.
func TestSessionLivesWhereItWasMade(t *testing.T) {
	t.Parallel()
	w, ps, c := dialPlaces(t)
	var p plainer
	for i, s := range []step{
		{"execute_python", given{"code": `out "1\n"`, "on": "gpu"},
			"Job ID: ID1\nStatus: completed\nPlace: gpu\nElapsed: T\nCursor: 2\nSession: new\n\n--- STDOUT ---\n1\n", ""},
		{"execute_python", given{"code": `out "2\n"`, "session": "gpu"},
			"Job ID: ID2\nStatus: completed\nPlace: gpu\nElapsed: T\nCursor: 2\n\n--- STDOUT ---\n2\n", ""},
		{"execute_python", given{"code": `out "3\n"`, "session": "lab", "on": "cluster"},
			"Job ID: ID3\nStatus: completed\nPlace: cluster\nElapsed: T\nCursor: 2\nSession: new\n\n--- STDOUT ---\n3\n", ""},
		{"execute_python", given{"code": `out "4\n"`, "session": "lab"},
			"Job ID: ID4\nStatus: completed\nPlace: cluster\nElapsed: T\nCursor: 2\n\n--- STDOUT ---\n4\n", ""},
		{"install_package_async", given{"package": "numpy", "session": "lab"},
			"Job ID: ID5\nStatus: completed\nPlace: cluster\nElapsed: T\nCursor: 24\n\n--- STDOUT ---\ninstalled numpy for lab\n", ""},
		{"execute_command_async", given{"command": `out "5\n"`, "shell_session": "lab", "on": "gpu"},
			"Job ID: ID6\nStatus: completed\nPlace: gpu\nElapsed: T\nCursor: 2\n\n--- STDOUT ---\n5\n", ""},
		{"execute_command_async", given{"command": `out "6\n"`, "shell_session": "lab"},
			"Job ID: ID7\nStatus: completed\nPlace: gpu\nElapsed: T\nCursor: 2\n\n--- STDOUT ---\n6\n", ""},
		{"execute_command_async", given{"command": `out "7\n"`, "on": "cluster"},
			"Job ID: ID8\nStatus: completed\nPlace: cluster\nElapsed: T\nCursor: 2\n\n--- STDOUT ---\n7\n", ""},
		{"execute_python", given{"code": `out "8\n"`}, "Job ID: ID9\nStatus: completed\nElapsed: T\nCursor: 2\n\n--- STDOUT ---\n8\n", ""},
		{"check_python_status", given{"session": "lab"},
			"Job ID: ID4\nStatus: completed\nPlace: cluster\nElapsed: T\nCursor: 2\n\n--- STDOUT ---\n4\n", ""},
		{"list_jobs", given{"session": "lab", "limit": 3}, "Jobs: 3, newest first\nMore: list_jobs with before=ID5\n\n" +
			"ID7 completed, shell lab at gpu, T: out \"6\\n\"\nID6 completed, shell lab at gpu, T: out \"5\\n\"\nID5 completed, package lab at cluster, T: install numpy\n", ""},
		{"create_session", given{"name": "twig", "from_session": "lab"}, "Place: cluster\n\n" +
			"Session: new\n\ntwig, no Python runs, idle for T, 0 variables, 0 jobs in T, T old, in /lab, branch of lab\n" +
			"Shared with lab, so use each of these in one session only:\n  child 812 (sleep)\n", ""},
		{"list_sessions", nil, "Sessions: 1 of at most 50\nPlace: cluster, test, connected, version test, 2 sessions\nPlace: gpu, test, connected, version test, 1 session\n\n" +
			"default, no Python runs, idle for T, 0 variables, 0 jobs in T, T old, in /lab\n" +
			"lab, at cluster, no Python runs, idle for T, 0 variables, 0 jobs in T, T old, in /lab\n" +
			"twig, at cluster, no Python runs, idle for T, 0 variables, 0 jobs in T, T old, in /lab\n" +
			"gpu, at gpu, no Python runs, idle for T, 0 variables, 0 jobs in T, T old, in /lab\n", ""},
		{"delete_session", given{"session": "lab"}, "Place: cluster\n\nSession: lab\nDeleted: yes; all variables are lost\n", ""},
		{"execute_python", given{"code": `out "9\n"`, "session": "lab"},
			"Job ID: ID10\nStatus: completed\nElapsed: T\nCursor: 2\nSession: new\n\n--- STDOUT ---\n9\n", ""},
		// The name of a place stands for its default session before that exists.
		{"delete_session", given{"session": "gpu"}, "Place: gpu\n\nSession: gpu\nDeleted: yes; all variables are lost\n", ""},
		{"execute_python", given{"code": `out "10"`, "session": "gpu"},
			"Job ID: ID11\nStatus: completed\nPlace: gpu\nElapsed: T\nCursor: 2\nSession: new\n\n--- STDOUT ---\n10\n", ""},
	} {
		if diff := cmp.Diff(s.want, p.plain(c.call(s.tool, p.real(t, s.args)))); diff != "" {
			t.Fatalf("step %d, %s: -want +got\n%s", i+1, s.tool, diff)
		}
	}
	if got := fmt.Sprint(w.order); got != `[out "8\n" out "9\n"]` {
		t.Errorf("Python here ran %s", got)
	}
	if got := fmt.Sprint(ps.far["cluster"].order); got != `[out "3\n" out "4\n"]` {
		t.Errorf("Python at the cluster ran %s", got)
	}
}

// A session lives in one place, and a call for it elsewhere is refused before it does anything.
func TestSessionLivesInOnePlace(t *testing.T) {
	t.Parallel()
	w, ps, c := dialPlaces(t)
	w.status = func(_ engine.Scope, s *overview.Server) { s.Shells = []overview.Shell{{Name: "sh"}} }
	own := field(c.call("execute_python", given{"code": `out "x"`, "session": "own"}), "Job ID")
	far := field(c.call("execute_python", given{"code": `out "x"`, "session": "lab", "on": "gpu"}), "Job ID")
	c.call("execute_command_async", given{"command": `out "x"`, "shell_session": "far", "on": "gpu"})
	before := len(ps.started) + len(ps.called)
	for _, tt := range []struct {
		tool string
		args given
		want string
	}{
		{"execute_python", given{"code": "x", "on": "gpuu"}, `There is no place "gpuu". The places are: cluster, gpu. Leave on out to run it here.`},
		{"create_session", given{"name": "new", "on": "a\n" + strings.Repeat("x", 100)},
			`There is no place "a\n` + strings.Repeat("x", 62) + `". The places are: cluster, gpu. Leave on out to run it here.`},
		{"execute_python", given{"code": "x", "on": 1}, "on must be a string, not a number."},
		{"execute_python", given{"code": "x", "session": "lab", "on": "cluster"}, `Session "lab" lives at "gpu": leave on out, or take another session.`},
		{"install_package_async", given{"package": "x", "session": "lab", "on": "cluster"}, `Session "lab" lives at "gpu": leave on out, or take another session.`},
		{"create_session", given{"name": "lab", "on": "cluster"}, `Session "lab" lives at "gpu": leave on out, or take another session.`},
		{"execute_command_async", given{"command": "x", "shell_session": "far", "on": "cluster"}, `Session "far" lives at "gpu": leave on out, or take another session.`},
		{"execute_python", given{"code": "x", "session": "cluster", "on": "gpu"}, `Session "cluster" lives at "cluster": leave on out, or take another session.`},
		{"create_session", given{"name": "cluster", "from_session": "lab"}, `Session "cluster" lives at "cluster": take another session.`},
		{"execute_python", given{"code": "x", "session": "own", "on": "gpu"}, `Session "own" lives here, not at "gpu": leave on out, or take another session.`},
		{"execute_python", given{"code": "x", "session": "default", "on": "gpu"}, `Session "default" lives here, not at "gpu": leave on out, or take another session.`},
		{"create_session", given{"name": "own", "on": "gpu"}, `Session "own" lives here, not at "gpu": leave on out, or take another session.`},
		{"execute_command_async", given{"command": "x", "shell_session": "sh", "on": "gpu"}, `Session "sh" lives here, not at "gpu": leave on out, or take another session.`},
		{"create_session", given{"name": "new", "from_session": "lab", "on": "cluster"}, `Session "lab" is at "gpu", not at "cluster": leave on out.`},
		{"create_session", given{"name": "new", "from_session": "own", "on": "cluster"}, `Session "own" is here, not at "cluster": leave on out.`},
		{"create_session", given{"name": "lab", "from_session": "own"}, `Session "lab" lives at "gpu": take another session.`},
		{"create_session", given{"name": "own", "from_session": "lab"}, `Session "own" lives here, not at "gpu": take another session.`},
		{"execute_python", given{"code": "x", "from_job": far, "on": "cluster"}, `Job ` + far + ` is at "gpu", not at "cluster": leave on out.`},
		{"execute_python", given{"code": "x", "from_job": own, "on": "cluster"}, `Job ` + own + ` is here, not at "cluster": leave on out.`},
		{"execute_python", given{"code": "x", "from_job": own, "session": "lab"}, `Session "lab" lives at "gpu": take another session.`},
		{"execute_python", given{"code": "x", "rerun": true, "on": "gpu"}, "rerun is about the jobs up to from_job: give from_job too."},
		{"execute_python", given{"on": "gpu"}, "code is missing. Give the code, or the path of a file to run."},
		{"list_variables", given{"session": "cluster"}, "No session cluster. There are: default, own."},
		{"check_python_status", given{"session": "labb"}, "No session labb. There are: default, own."},
	} {
		if got := c.refused(tt.tool, tt.args); got != tt.want {
			t.Errorf("%s(%v)\ngot  %q\nwant %q", tt.tool, tt.args, got, tt.want)
		}
	}
	if after := len(ps.started) + len(ps.called); after != before {
		t.Errorf("refused calls went to places: %v, %v", ps.started, ps.called)
	}
}

// A call for a session whose engine at a place has ended does not run here: it was meant for other files.
func TestSessionThatHasEndedAtItsPlace(t *testing.T) {
	t.Parallel()
	w, ps, c := dialPlaces(t)
	ps.left = map[string]string{"lab": "gpu"}
	const want = `Session "lab" was at "gpu" and is not there now: give on="gpu" to make it there, or take another session.`
	for tool, args := range map[string]given{
		"execute_python":        {"code": "x", "session": "lab"},
		"execute_command_async": {"command": "x", "shell_session": "lab"},
		"install_package_async": {"package": "x", "session": "lab"},
	} {
		if got := c.refused(tool, args); got != want {
			t.Errorf("%s\ngot  %q\nwant %q", tool, got, want)
		}
	}
	if w.order != nil || ps.started != nil {
		t.Errorf("here ran %v, and there %v", w.order, ps.started)
	}
	c.call("execute_python", given{"code": `out "x"`, "session": "lab", "on": "gpu"})
	if got := ps.Of(jobs.Python, "lab"); got != "gpu" {
		t.Errorf("with on it is at %q", got)
	}
	ps.left["own"] = "gpu"
	c.call("create_session", given{"name": "own"}) // which makes it here
	c.call("execute_python", given{"code": `out "here"`, "session": "own"})
	if len(w.order) != 1 {
		t.Errorf("here ran %v", w.order)
	}
}

// The state after a job at a place is there, so a session that continues with it is there, too.
func TestStateIsContinuedAtItsPlace(t *testing.T) {
	t.Parallel()
	_, ps, c := dialPlaces(t)
	id := field(c.call("execute_python", given{"code": `out "x"`, "session": "kept", "on": "gpu"}), "Job ID")
	var p plainer
	got := p.plain(c.call("execute_python", given{"code": `out "y"`, "from_job": id[:12]}))
	const want = "Job ID: ID1\nStatus: completed\nPlace: gpu\nElapsed: T\nCursor: 1\nSession: new, kept-2\n\n--- STDOUT ---\ny\n"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if _, err := ps.far["gpu"].Session("kept-2"); err != nil || ps.Of(jobs.Python, "kept-2") != "gpu" {
		t.Errorf("the session is not there: %v", err)
	}
	got = p.plain(c.call("execute_python", given{"code": `out "y"`, "from_job": id, "session": "threads"}))
	const refused = "Job ID: ID2\nStatus: failed (could not start: Session kept can't be branched now: a thread runs)\nPlace: gpu\nCursor: 0\n"
	if got != refused {
		t.Errorf("refused there: got\n%s\nwant\n%s", got, refused)
	}
}

// A place gets the arguments of the call but for what is decided here, and its own limits hold there.
func TestPlaceGetsTheArguments(t *testing.T) {
	t.Parallel()
	_, ps, c := dialPlaces(t)
	c.call("execute_command_async", given{"on": "gpu", "command": `out "x"`, "cwd": "~/no/such", "env": given{"A": "b"}, "tty": false, "keep": true, "wait_seconds": 60, "max_chars": 1000, "timeout_seconds": 7})
	c.call("execute_python", given{"on": "gpu", "path": "~/a.py", "args": []string{"1"}, "session": nil})
	ps.keeps = true
	c.call("install_package_async", given{"on": "gpu", "package": "numpy"})
	var got []string
	for _, s := range ps.started {
		got = append(got, fmt.Sprintf("%s %s %s %q %t", s.Tool, s.Arguments, s.Kind, s.Session, s.Keep))
	}
	want := []string{
		`execute_command_async {"command":"out \"x\"","cwd":"~/no/such","env":{"A":"b"},"timeout_seconds":7,"tty":false} shell "" true`,
		`execute_python {"args":["1"],"path":"~/a.py","session":"gpu"} python "gpu" false`,
		`install_package_async {"package":"numpy","session":"gpu"} package "gpu" true`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	far := ps.far["gpu"]
	for record := range far.jobs.All(jobs.Filter{}) {
		if record.Kind == jobs.Shell && (record.Timeout != 7*time.Second || !record.Keep || record.Place != "") {
			t.Errorf("the job there: %+v", record.Spec)
		}
	}
}

// A job at a place outlives the server, so it can be kept where one here can't.
func TestJobAtAPlaceIsKept(t *testing.T) {
	t.Parallel()
	w, _, c := dialPlaces(t) // KeepRefused
	reply := c.call("execute_python", given{"on": "gpu", "code": code(`out "x\n"`, "hang"), "keep": true, "wait_seconds": 0})
	jobstest.Prints(t, w.job(reply), "x\n")
	polltest.Until(t, "the job to run", func() bool { return w.job(reply).Record().Status == jobs.Running })
	got := field(c.call("check_job_status", given{"job_id": field(reply, "Job ID")}), "Keep")
	if want := "continues at gpu when this client quits, and without this server"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if w.kept != nil {
		t.Errorf("sessions here are kept: %v", w.kept)
	}
	if got := c.refused("execute_python", given{"code": "hang", "keep": true}); !strings.HasPrefix(got, "keep: this server ends with its client") {
		t.Errorf("here: %q", got)
	}
}

// What is about a session at a place is done there, and the reply comes from there below a line of ours.
func TestCallIsSentOn(t *testing.T) {
	t.Parallel()
	w, ps, c := dialPlaces(t)
	far := ps.far["gpu"]
	var p plainer
	for i, s := range []step{
		{"create_session", given{"name": "lab", "on": "gpu", "venv": "own"}, "Place: gpu\n\nSession: new\n\nlab, no Python runs, idle for T, 0 variables, 0 jobs in T, T old, in /lab\n", ""},
		{"check_python_status", given{"session": "lab"}, "No Python job yet in session lab.", ""},
		{"list_jobs", given{"session": "lab"}, "No such jobs.", ""},
		{"list_variables", given{"session": "lab"}, "Place: gpu\n\nNo variables in session lab.", ""},
		{"get_variable", given{"name": `out "42"`, "session": "lab"}, "Place: gpu\n\nJob ID: ID1\nStatus: completed\nElapsed: T\nCursor: 2\n\n--- STDOUT ---\n42\n", ""},
		{"inspect_object", given{"name": `out "doc"`, "session": "lab"}, "Place: gpu\n\nJob ID: ID2\nStatus: completed\nElapsed: T\nCursor: 3\n\n--- STDOUT ---\ndoc\n", ""},
		{"complete_code", given{"code": `out "x"`, "session": "lab"}, "Place: gpu\n\nJob ID: ID3\nStatus: completed\nElapsed: T\nCursor: 1\n\n--- STDOUT ---\nx\n", ""},
		{"set_variable", given{"name": "a", "value": []int{1}, "session": "lab"}, "Place: gpu\n\nJob ID: ID4\nStatus: completed\nElapsed: T\nCursor: 0\n", ""},
		{"delete_variables", given{"names": []string{"a"}, "session": "lab"}, "Place: gpu\n\nJob ID: ID5\nStatus: completed\nElapsed: T\nCursor: 0\n", ""},
		{"execute_python", given{"code": code(`out "x\n"`, "hang"), "session": "lab", "wait_seconds": 0}, "", "x\n"},
		{"restart_python_worker", given{"session": "lab"}, "Place: gpu\n\nSession: lab\nRestarted: yes; all variables are lost, the next execute starts a new Python\n" +
			"Ended: ID6 cancelled (killed by restart_python_worker), python lab, T: out \"x\\n\" …\n", ""},
		{"check_job_status", given{"job_id": "ID6", "wait_seconds": 60, "cursor": 2},
			"Job ID: ID6\nStatus: cancelled (killed by restart_python_worker)\nPlace: gpu\nElapsed: T\nEnded by: agent\nCursor: 20\n\n--- STDERR ---\nKeyboardInterrupt\n", ""},
		{"delete_session", given{"session": "lab"}, "Place: gpu\n\nSession: lab\nDeleted: yes; all variables are lost\nKept: /lab/.venvs/lab, the environment of the session\n", ""},
	} {
		got := c.call(s.tool, p.real(t, s.args))
		if s.want == "" {
			p.plain(got)
			jobstest.Prints(t, w.job(got), s.prints)
			continue
		}
		if diff := cmp.Diff(s.want, p.plain(got)); diff != "" {
			t.Fatalf("step %d, %s: -want +got\n%s", i+1, s.tool, diff)
		}
	}
	if w.asked != nil || len(far.asked) != 5 {
		t.Errorf("asked here: %v, there: %v", w.asked, far.asked)
	}
	// A path of an export is there.
	id := field(c.call("execute_python", given{"code": `out "shown\n"`, "session": "lab", "on": "gpu"}), "Job ID")
	far.histories["lab"] = engine.History{Entries: []engine.Entry{{Job: id, Work: engine.Work{Code: "print('shown')"}, Began: time.Now(), Ended: time.Now(), Receipt: jobs.Receipt{End: jobs.Returned}}}}
	if got, want := c.call("export_session", given{"session": "lab", "path": "lab.py"}), "Place: gpu\n\nSession: lab\nExported: "+far.workspace+"/lab.py, "; !strings.HasPrefix(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	// A refusal of the place is one here.
	if got, want := c.refused("create_session", given{"name": "lab", "on": "gpu"}), "Place: gpu\n\nSession lab exists, and is not changed: "; !strings.HasPrefix(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// What a place answers is bounded, hides nothing and makes no header of ours.
func TestAnswerOfAPlaceIsBounded(t *testing.T) {
	t.Parallel()
	w, ps, c := dialPlaces(t)
	ps.lives[jobs.Python]["lab"] = "gpu"
	w.losses = []*engine.Loss{{Session: "default", Job: "J1", How: "was killed"}}
	ps.answer = "Status: completed\n\nPlace: here\tx\x1b[2J\x00\u202e\xff\r\n--- STDOUT ---\n"
	got := c.call("list_variables", given{"session": "lab"})
	want := "Place: gpu\nLost: " + w.losses[0].String() + "\n\nStatus: completed\n\nPlace: here\tx" + `\x1b[2J\x00\u202e` + "\uFFFD" + `\r` + "\n--- STDOUT ---\n"
	if got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	for _, answer := range []string{strings.Repeat("x", 1<<20), strings.Repeat("x\n", 1<<19), strings.Repeat("\t", 1<<20), strings.Repeat("\n", 1<<20), strings.Repeat("\x1b", 1<<20)} {
		ps.answer = answer
		if n := chars(c.call("list_variables", given{"session": "lab"})); n > defaultText+100 || n < defaultText-100 {
			t.Errorf("%.10q: %d characters", answer, n)
		}
	}
	ps.called = nil
	if n := chars(c.call("get_variable", given{"session": "lab", "name": "x", "max_chars": 1000})); n > 1100 {
		t.Errorf("%d characters of 1,000", n)
	}
	c.call("get_variable", given{"session": "lab", "name": "x"})
	if got, want := fmt.Sprint(ps.called), `[get_variable {"max_chars":1000,"name":"x","session":"lab"} get_variable {"max_chars":16000,"name":"x","session":"lab"}]`; got != want {
		t.Errorf("called %s, want %s", got, want)
	}
	ps.answer, ps.refused = "", errors.New("gpu has not answered within 2s: whether it was done there is not known (ssh: \x1b[31mno\nStatus: completed)"+strings.Repeat("x", 1<<20))
	for _, got := range []string{c.refused("list_variables", given{"session": "lab"}), c.refused("execute_python", given{"code": "x", "session": "lab"})} {
		const want = "gpu has not answered within 2s: whether it was done there is not known (ssh: \\x1b[31mno\nStatus: completed)xxx"
		if !strings.HasPrefix(got, want) || chars(got) > errorChars+100 {
			t.Errorf("%d characters: %.200q", chars(got), got)
		}
	}
}

// Calls that are sent on keep their order as long as the place answers.
func TestCallsAreSentOnInOrder(t *testing.T) {
	t.Parallel()
	_, ps, c := dialPlaces(t)
	ps.lives[jobs.Python]["lab"] = "gpu"
	ps.answer = "x"
	var want []string
	for i := range 50 {
		c.startCall("list_variables", given{"session": "lab", "pattern": fmt.Sprint("v", i)})
		want = append(want, fmt.Sprintf(`list_variables {"pattern":"v%d","session":"lab"}`, i))
	}
	for range want {
		c.read()
	}
	if diff := cmp.Diff(want, ps.called); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// A place that is slow to answer holds up no other call, and its own call for no longer than the grace.
func TestSlowPlaceHoldsUpNoOtherCall(t *testing.T) {
	t.Parallel()
	_, ps, c := dialPlaces(t)
	ps.lives[jobs.Python]["lab"] = "gpu"
	ps.hold = make(chan struct{})
	slow := c.startCall("list_variables", given{"session": "lab"})
	quick := c.startCall("list_jobs", nil)
	if m := c.read(); m.ID != quick {
		t.Fatalf("the answer to %d comes first", m.ID)
	}
	close(ps.hold)
	if m := c.read(); m.ID != slow {
		t.Fatalf("the answer to %d comes next", m.ID)
	}
	w, ps, _ := dialPlaces(t)
	w.grace = 10 * time.Millisecond
	ps.lives[jobs.Python]["lab"] = "gpu"
	ps.hold = make(chan struct{})
	if got, want := w.dial(engine.Scope{}).refused("list_variables", given{"session": "lab"}), "gpu has not answered"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// While the link is lost, a reply says since when the state is not known, and waits for nothing.
func TestLostLinkIsSaid(t *testing.T) {
	t.Parallel()
	_, ps, c := dialPlaces(t)
	id := field(c.call("execute_python", given{"on": "gpu", "code": code(`out "x\n"`, `ask line "? "`, "hang"), "wait_seconds": 60}), "Job ID")
	now := time.Now()
	ps.in(func() {
		ps.link = jobs.Link{Where: "node n2", Lost: now.Add(-12500 * time.Millisecond), Why: "ssh: reset", AsOf: now}
		ps.lose = true
	})
	lines := func(reply string) string {
		var kept []string
		for _, name := range []string{"Status", "Place", "Link", "Input"} {
			if value := field(reply, name); value != "" {
				kept = append(kept, name+": "+value)
			}
		}
		return regexp.MustCompile(`\d+s`).ReplaceAllString(strings.Join(kept, "\n"), "T")
	}
	const head = "Status: waiting_input\nPlace: gpu (node n2)\n"
	link := "Link: lost for T (ssh: reset); as of " + now.Format(time.TimeOnly)
	if got := lines(c.call("check_job_status", given{"job_id": id})); got != head+link {
		t.Errorf("got\n%s\nwant\n%s", got, head+link)
	}
	if got, want := lines(c.call("send_python_input", given{"text": "secret", "wait_seconds": 60})), head+link+"\nInput: not known to be delivered"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := c.call("list_jobs", nil); !strings.Contains(got, " waiting_input, python gpu at gpu, ") || !strings.Contains(got, ", link lost for 1") {
		t.Errorf("the list: %s", got)
	}
	if got := c.call("wait_for_jobs", given{"job_ids": []string{id}}); !strings.Contains(got, "\nPlace: gpu (node n2)\nLink: lost for 1") {
		t.Errorf("a wait: %s", got)
	}
	if got := c.call("search_job_output", given{"job_id": id, "pattern": "x"}); !strings.Contains(got, "\nPlace: gpu (node n2)\nLink: lost for 1") {
		t.Errorf("a search: %s", got)
	}
	ps.in(func() { ps.link, ps.lose = jobs.Link{}, false })
	if got := lines(c.call("send_python_input", given{"text": "y", "wait_seconds": 0})); got != "Status: running\nPlace: gpu\nInput: delivered" {
		t.Errorf("once the link is back: %s", got)
	}
}

// A session whose engine was lost unseen is new, and the reply to the job that makes it again says so.
func TestLostSessionIsNew(t *testing.T) {
	t.Parallel()
	_, ps, c := dialPlaces(t)
	for _, tt := range []struct {
		about string
		gone  bool
		tool  string
		args  given
		want  string
	}{
		{"the first job", false, "execute_python", given{"on": "gpu", "code": `out "x"`}, "new"},
		{"a later one", false, "execute_python", given{"session": "gpu", "code": `out "x"`}, ""},
		{"after a loss", true, "execute_python", given{"session": "gpu", "code": `out "x"`}, "new"},
		{"packages after a loss", true, "install_package_async", given{"session": "gpu", "package": "a"}, "new"},
		{"a shell after a loss", true, "execute_command_async", given{"on": "gpu", "shell_session": "s", "command": `out "x"`}, ""},
	} {
		ps.in(func() { ps.gone = tt.gone })
		if got := c.call(tt.tool, tt.args); field(got, "Session") != tt.want {
			t.Errorf("%s: want %q in %s", tt.about, tt.want, got)
		}
	}
}

// A job that waits for an allocation says so in the words of the scheduler, and not that jobs here are in its
// way.
func TestQueuedJobSaysWhatItWaitsFor(t *testing.T) {
	t.Parallel()
	w, ps, c := dialPlaces(t)
	ps.link = jobs.Link{Queued: "Slurm job 812, Priority, expected start 14:20"}
	first := c.call("execute_python", given{"on": "gpu", "code": code("queue first"), "wait_seconds": 0})
	if got := first[strings.Index(first, "Status"):]; got != "Status: queued\nPlace: gpu\nQueued: Slurm job 812, Priority, expected start 14:20\nCursor: 0\nSession: new\n" {
		t.Errorf("got %q", got)
	}
	ps.in(func() { ps.link = jobs.Link{} })
	second := c.call("execute_python", given{"session": "gpu", "code": code("queue second"), "wait_seconds": 0})
	if got, want := field(second, "Queued behind"), field(first, "Job ID")+" (queued)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, reply := range []string{second, first} {
		c.call("cancel_job", given{"job_id": field(reply, "Job ID")})
		jobstest.EndsAs(t, w.job(reply), "cancelled (before it ran)")
	}
}

// The pictures of a job at a place are in its reply, and their full size is a resource here.
func TestPicturesOfAPlaceAreShown(t *testing.T) {
	t.Parallel()
	w, _, c := dialPlaces(t)
	m := c.request("tools/call", map[string]any{"name": "execute_python", "arguments": given{"on": "gpu", "code": code("pictures 2 100", `out "done\n"`)}})
	var r struct {
		Content []struct{ Type, Text string }
	}
	if err := json.Unmarshal(m.Result, &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Content) != 3 || r.Content[1].Type != "image" || r.Content[2].Type != "image" || !strings.Contains(r.Content[0].Text, "\nPlace: gpu\n") {
		t.Fatalf("the reply is %.2000s", m.Result)
	}
	id := field(r.Content[0].Text, "Job ID")
	read := c.request("resources/read", map[string]any{"uri": "job://" + id + "/display/2"})
	if full := base64.StdEncoding.EncodeToString([]byte("full size 2")); !strings.Contains(string(read.Result), full) {
		t.Errorf("the resource is %.1000s %v", read.Result, read.Error)
	}
	if n := len(w.jobs.Lookup(id).Displays()); n != 2 {
		t.Errorf("%d displays", n)
	}
}

// A job that only a place knows is found there and adopted, under its own id.
func TestUnknownJobIsAskedForAtThePlaces(t *testing.T) {
	t.Parallel()
	w, ps, c := dialPlaces(t)
	far := ps.far["cluster"]
	ids := make([]string, 3)
	for i := range ids {
		py, _, err := far.Open(engine.Scope{}, "lab")
		if err != nil {
			t.Fatal(err)
		}
		ids[i] = jobstest.Start(t, far.jobs, jobs.Spec{Kind: jobs.Python, Session: "lab", Title: "t"}, py.Exec(code(`ask line "ok? "`, `out "yes\n"`))).ID()
	}
	if got := c.call("wait_for_jobs", given{"job_ids": []string{strings.ToLower(ids[0])}, "wait_seconds": 60}); field(got[strings.Index(got, "\n\n")+2:], "Place") != "cluster" {
		t.Errorf("a wait: %s", got)
	}
	if got := c.call("send_python_input", given{"job_id": ids[0], "text": "x", "wait_seconds": 60}); field(got, "Status") != "completed" || !strings.Contains(got, "yes\n") {
		t.Errorf("an answer: %s", got)
	}
	if got := c.call("cancel_job", given{"job_id": ids[1]}); field(got, "Place") != "cluster" || !strings.HasPrefix(field(got, "Status"), "cancelled") {
		t.Errorf("a cancel: %s", got)
	}
	read := c.request("resources/read", map[string]any{"uri": "job://" + ids[2]})
	if !strings.Contains(string(read.Result), `\"place\":\"cluster\"`) {
		t.Errorf("the resource: %s %v", read.Result, read.Error)
	}
	const unknown = "01M0WZ5JN3Q0R1ZC5D0J8V7K2T"
	if got := c.refused("check_job_status", given{"job_id": unknown}); !strings.HasPrefix(got, "No such job: "+unknown+"\n") {
		t.Errorf("nowhere: %s", got)
	}
	if n := len(w.jobs.List(jobs.Filter{})); n != len(ids) {
		t.Errorf("%d jobs are known", n)
	}
}

// Another engine starts jobs under its ids, and a job once.
func TestStartAs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.config.Keep = KeepLonger
	sc := w.scope(engine.Scope{})
	start := func(id, tool string, args given) error {
		return StartAs(t.Context(), w.config, sc, id, tool, rawjson.Of(args), true)
	}
	const id = "01M0WZ5JN3Q0R1ZC5D0J8V7K2T"
	// It does not wait for the job, although the grace is long.
	if err := start(id, "execute_python", given{"code": "hang", "session": "lab", "wait_seconds": 60}); err != nil {
		t.Fatal(err)
	}
	j := w.jobs.Lookup(id)
	if record := j.Record(); record.Session != "lab" || !record.Keep || record.Title != "hang" {
		t.Errorf("the job is %+v", record)
	}
	var taken *jobs.TakenError
	if err := start(id, "execute_command_async", given{"command": "hang"}); !errors.As(err, &taken) || taken.Job != j {
		t.Errorf("a second start: %v", err)
	}
	for _, tt := range []struct {
		id, tool string
		args     given
		want     string
	}{
		{"01M0WZ5JN3Q0R1ZC5D0J8V7K2V", "execute_python", given{"code": " "}, "code is empty."},
		{"01M0WZ5JN3Q0R1ZC5D0J8V7K2V", "execute_command_async", given{"command": "x", "cwd": "no"}, "cwd: there is no directory "},
		{"01M0WZ5JN3Q0R1ZC5D0J8V7K2V", "execute_python", given{"code": "x", "session": "full"}, "50 sessions are open, the most allowed (REPL_MAX_SESSIONS): "},
		{"01M0WZ5JN3Q0R1ZC5D0J8V7K2V", "cancel_job", given{"job_id": id}, `"cancel_job" is no tool that starts jobs`},
		{"01M0WZ5JN3Q0R1ZC5D0J8V7K2V", "execute_python", given{"code": "x", "on": "gpu"}, "Unknown parameter: on. "},
		{"lower", "execute_python", given{"code": "x"}, `"lower" is not the id of a job: `},
	} {
		if err := start(tt.id, tt.tool, tt.args); err == nil || !strings.HasPrefix(strings.ToLower(err.Error()), strings.ToLower(tt.want)) {
			t.Errorf("%s(%v): %v, want %q", tt.tool, tt.args, err, tt.want)
		}
	}
	if text, isError := CallTool(t.Context(), w.config, sc, "no_tool", nil, func() {}); !isError || text != `There is no tool "no_tool".` {
		t.Errorf("no tool: %q", text)
	}
	if text, isError := CallTool(t.Context(), w.config, sc, "list_variables", rawjson.Of(given{"session": "none"}), func() {}); !isError || text != "No session none. There are: default, lab." {
		t.Errorf("a refusal: %q", text)
	}
}

// The first reply to a later client names what is at places.
func TestResumedNamesPlaces(t *testing.T) {
	t.Parallel()
	w, ps, c := dialPlaces(t)
	ps.vars = 3
	c.call("create_session", given{"name": "lab", "on": "gpu"})
	id := field(c.call("execute_command_async", given{"on": "gpu", "command": "hang", "wait_seconds": 0}), "Job ID")
	polltest.Until(t, "the job to run", func() bool { return w.jobs.Lookup(id).Record().Status == jobs.Running })
	w.config.Resumes = 1
	if got, want := field(w.dial(engine.Scope{}).call("list_jobs", nil), "Resumed"), "job "+id+" at gpu running; session lab at gpu with 3 variables"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
