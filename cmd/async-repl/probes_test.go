//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"asyncrepl/internal/mcp/client"
	"asyncrepl/internal/test/polltest"
)

// furnish gives the tenant something of everything that a reply can show, all of it named alice,
// and returns the ids of jobs.
func (m *member) furnish() (ids []string) {
	m.t.Helper()
	for path, text := range map[string]string{"secret.py": "print('alice-file')", "alice-requirements.txt": "./alice-missing"} {
		m.write(path, text)
	}
	run := func(tool string, args map[string]any) client.Reply {
		m.t.Helper()
		r := m.do(tool, args)
		ids = append(ids, r.Header("Job ID"))
		return r
	}
	m.do("create_session", map[string]any{"name": "alice-lab", "env": map[string]any{"ALICE": "alice-env"}})
	run("execute_python", map[string]any{
		"session": "alice-lab", "checkpoint": true, "wait_seconds": 60,
		"code": "class Alice:\n def _repr_html_(self): return '<b>alice-page</b>'\nsecret = 'alice-secret'\nprint('alice-out')\nAlice()",
	})
	run("execute_python", map[string]any{"session": "alice-lab", "path": "secret.py", "wait_seconds": 60})
	run("execute_python", map[string]any{"session": "alice-lab", "code": "raise ValueError('alice-error')", "wait_seconds": 60})
	run("install_package_async", map[string]any{"package": "-r alice-requirements.txt", "session": "alice-lab", "wait_seconds": 60})
	m.do("create_session", map[string]any{"name": "alice-fork", "from_session": "alice-lab"})
	run("execute_python", map[string]any{"session": "alice-ask", "code": "input('alice-question')", "wait_seconds": 60})
	m.do("execute_python", map[string]any{"session": "alice-dead", "code": "import os\nalice_lost = 1\nprint(os.getpid())", "wait_seconds": 60})
	var pid int
	if _, err := fmt.Sscanf(m.do("check_python_status", map[string]any{"session": "alice-dead"}).Section("STDOUT"), "%d", &pid); err != nil {
		m.t.Fatal(err)
	}
	dead := m.seen(pid)
	if r := run("execute_command_async", map[string]any{"command": fmt.Sprintf("kill -9 %d; echo alice-kills", pid), "wait_seconds": 60}); r.Header("Lost") == "" {
		m.until("list_sessions", nil, "Lost: ")
	}
	gone(m.t, []int{dead})
	run("execute_command_async", map[string]any{"command": "until [ -e alice-go ]; do sleep 0.01; done; echo alice-ends", "wait_seconds": 0})
	m.write("alice-go", "")
	m.until("check_job_status", map[string]any{"job_id": ids[0]}, "Also: ")
	listens := run("execute_command_async", map[string]any{"command": `exec python3 -c 'import socket, time
s = socket.create_server(("127.0.0.1", 0)); time.sleep(1000)  # alice listens'`, "wait_seconds": 0})
	m.until("check_job_status", map[string]any{"job_id": listens.Header("Job ID")}, "Listening: ")
	m.loseNap()
	return ids
}

// loseNap leaves a process of a program called alice-nap of which it is not known which of the
// tenant's jobs has started it.
func (m *member) loseNap() {
	m.t.Helper()
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		m.t.Fatal(err)
	}
	exists := func(name string) bool { _, err := os.Stat(filepath.Join(m.dir, name)); return err == nil }
	for n := 1; ; n++ { // again, if a scan has seen its parents
		id := m.do("execute_command_async", map[string]any{"command": fmt.Sprintf(`cp %s alice-nap%d; touch copied%[2]d; until [ -e go%[2]d ]; do sleep 0.01; done
(env -i setsid ./alice-nap%[2]d 1000 </dev/null >/dev/null 2>&1 & until grep -q alice /proc/$!/comm; do :; done)
touch over%[2]d; read x`, sleep, n), "wait_seconds": 0, "tty": false}).Header("Job ID")
		polltest.Until(m.t, "a copy of sleep", func() bool { return exists(fmt.Sprint("copied", n)) })
		m.write(fmt.Sprint("go", n), "")
		polltest.Until(m.t, "the nap", func() bool { return exists(fmt.Sprint("over", n)) })
		m.do("send_command_input", map[string]any{"job_id": id, "text": "go\n", "wait_seconds": 0})
		r := m.do("check_job_status", map[string]any{"job_id": id, "wait_seconds": 60})
		if strings.HasPrefix(r.Header("Unclaimed"), "alice-nap") {
			m.do("server_status", nil)
			return
		}
		if n == 50 {
			m.t.Fatalf("the job of every process is known:\n%s", r)
		}
		m.do("cancel_job", map[string]any{"job_id": id, "force": true})
	}
}

// everyTool returns calls of every tool, as of a client that knows the id of a job, the name of a
// session and the path of a file.
func everyTool(job, session, file string) map[string][]map[string]any {
	with := func(args ...map[string]any) []map[string]any { return args }
	type m = map[string]any
	return map[string][]map[string]any{
		"cancel_job":            with(m{"job_id": job}, m{"job_id": job, "force": true}),
		"check_job_status":      with(m{"job_id": job}, m{"job_id": job[:12]}, m{"job_id": strings.ToLower(job), "cursor": 0, "wait_seconds": 0.01}),
		"check_python_status":   with(m{}, m{"job_id": job}, m{"session": session}, m{"job_id": job, "session": session}, m{"session": session, "cursor": 0}),
		"complete_code":         with(m{"code": "ali", "session": session}, m{"code": "ali"}),
		"create_session":        with(m{"name": "copy-" + session, "from_session": session}),
		"delete_file":           with(m{"path": file}),
		"delete_session":        with(m{"session": session}),
		"delete_variables":      with(m{"all": true, "session": session}, m{"names": []string{"secret"}, "session": session}),
		"edit_file":             with(m{"path": file, "old": "print", "new": "exit"}),
		"execute_command_async": with(m{"command": "env"}),
		"execute_python": with(m{"code": "[v for v in globals() if 'ali' in v]", "session": session, "wait_seconds": 60},
			m{"from_job": job, "code": "secret"}, m{"from_job": job, "rerun": true, "code": "secret"}),
		"export_session":        with(m{"path": "all.ipynb", "session": session}),
		"get_variable":          with(m{"name": "secret", "session": session}),
		"inspect_object":        with(m{"name": "secret", "session": session}),
		"install_package_async": with(m{"package": "./nothing", "session": session, "wait_seconds": 60}),
		"list_files":            with(m{}, m{"path": filepath.Dir(file)}, m{"recursive": true, "tree": true}),
		"list_jobs":             with(m{}, m{"session": session}, m{"before": job}, m{"status": "running"}, m{"status": "waiting_input"}, m{"limit": 200}),
		"list_sessions":         with(m{}),
		"list_variables":        with(m{}, m{"session": session}, m{"session": session, "pattern": "ali*"}),
		"read_file":             with(m{"path": file}, m{"path": "secret.py"}),
		"restart_python_worker": with(m{"session": session, "checkpoint": job}, m{"session": session, "checkpoint": "latest"}, m{"session": session}),
		"search_job_output":     with(m{"job_id": job, "pattern": "."}, m{"job_id": job[:12], "pattern": "secret", "context": 1, "cursor": 0}),
		"send_command_input":    with(m{"job_id": job, "text": "x\n"}, m{"job_id": job, "eof": true}),
		"send_python_input":     with(m{"text": "x"}, m{"text": "x", "job_id": job}),
		"server_status":         with(m{}),
		"set_variable":          with(m{"name": "secret", "value": 1, "session": session}),
		"write_file":            with(m{"path": file, "content": "x", "overwrite": true}),
		"wait_for_jobs":         with(m{"job_ids": []string{job}, "wait_seconds": 0}, m{"job_ids": []string{job}, "until": "all", "wait_seconds": 0}),
	}
}

// probe calls every tool and reads every resource as a client that knows the id of a job, the name
// of a session and the path of a file. If onlyJob is true, it leaves out the calls that do not name
// the job. It returns the refusals, with "JOB" for the id.
func (m *member) probe(job, session, file string, onlyJob bool) (refusals []string) {
	m.t.Helper()
	forget := strings.NewReplacer(m.dir, "DIR", "alike", "alice", job, "JOB", strings.ToLower(job), "JOB", job[:12], "JOB")
	calls := everyTool(job, session, file)
	for _, tool := range slices.Sorted(maps.Keys(calls)) {
		for _, args := range calls[tool] {
			if onlyJob && !strings.Contains(strings.ToUpper(fmt.Sprint(args)), job[:12]) {
				continue
			}
			if text, refused := m.ask(tool, args); refused {
				text, _, _ = strings.Cut(text, "\nNearest:\n") // jobs of the tenant itself
				refusals = append(refusals, forget.Replace(fmt.Sprint(tool, args, ": ", text)))
			}
		}
	}
	for _, path := range []string{"", "/output", "/output?view=raw", "/display/1"} {
		raw, err := m.Request(m.ctx(), "resources/read", map[string]any{"uri": "job://" + job + path})
		text, _, _ := strings.Cut(fmt.Sprint(err), "\nNearest:\n")
		refusals = append(refusals, forget.Replace(path+": "+text))
		m.said.WriteString(string(raw))
	}
	raw, err := m.Request(m.ctx(), "resources/list", nil)
	if err != nil {
		m.t.Fatal(err)
	}
	m.said.Write(raw)
	return refusals
}

// tools returns the names of all tools.
func (m *member) tools() (names []string) {
	m.t.Helper()
	raw, err := m.Request(m.ctx(), "tools/list", nil)
	if err != nil {
		m.t.Fatal(err)
	}
	var list struct{ Tools []struct{ Name string } }
	if err := json.Unmarshal(raw, &list); err != nil {
		m.t.Fatal(err)
	}
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
	}
	return names
}

// showsNothingOf checks that no reply has shown anything of another tenant, whose jobs have these
// ids, except the words that the client has typed itself.
func (m *member) showsNothingOf(other *member, ids []string, typed ...string) {
	m.t.Helper()
	said := m.said.String()
	for _, word := range typed {
		said = strings.ReplaceAll(said, word, "TYPED")
	}
	for line := range strings.Lines(said) {
		if strings.Contains(line, "alice") || slices.ContainsFunc(ids, func(id string) bool { return strings.Contains(line, id[12:]) }) {
			m.t.Errorf("another tenant's reply has the line %s", line)
		}
	}
	if m.confined { // each tenant has pids of its own
		return
	}
	server := regexp.MustCompile(`(?m)^Version: .*(pid \d+)`).FindStringSubmatch(said)[1]
	for _, pid := range regexp.MustCompile(`pid \d+\b`).FindAllString(other.said.String(), -1) {
		if pid != server && regexp.MustCompile(`\b`+pid+`\b`).MatchString(said) {
			m.t.Errorf("another tenant's reply has the %s", pid)
		}
	}
}

// nobodys returns the id of a job that there is not.
func nobodys(id string) string {
	return id[:12] + strings.Map(func(r rune) rune { return rune('Z' - r%8) }, id[12:])
}

// Whatever tool one tenant calls, with the ids and names that another has, no reply shows anything
// of the other. A refusal is the same as for what is nobody's.
func TestProbesAcrossTenants(t *testing.T) {
	if testing.Short() {
		t.Skip("it makes environments")
	}
	t.Parallel()
	members := serveTenants(t, "alice bob carol")
	alice, bob, carol := members[0], members[1], members[2]
	before := bob.do("server_status", nil)
	ids := alice.furnish()
	for _, line := range []string{"Also: ", "Lost: ", "Listening: ", "Checkpoint: ", "Prompt: ", "Unclaimed: ", "Orphans: alice-nap"} {
		if !strings.Contains(alice.said.String(), "\n"+line) {
			t.Errorf("the tenant itself is never shown %q", line)
		}
	}
	if after := bob.do("server_status", nil); steady(after) != steady(before) {
		t.Errorf("the state of the server for one tenant before and after another has done something:\n%s\n%s", before, after)
	}

	if got, want := bob.tools(), slices.Sorted(maps.Keys(everyTool(ids[0], "", ""))); !slices.Equal(got, want) {
		t.Fatalf("the tools are %q, tried are %q", got, want)
	}
	bob.probe(nobodys(ids[0]), "lab", "lab.py", false)
	bob.showsNothingOf(alice, ids)
	carol.probe(nobodys(ids[0]), "lab", "lab.py", false)
	sessions := []string{"alice-lab", "alice-ask", "alice-dead", "alice-fork"}
	for i, id := range ids {
		session := sessions[i%len(sessions)]
		file := []string{"../alice/secret.py", alice.dir + "/secret.py"}[i%2]
		onlyJob := i >= len(sessions) // each session and file has been tried
		alike := strings.NewReplacer("alice", "alike")
		got, want := bob.probe(id, session, file, onlyJob), carol.probe(nobodys(id), alike.Replace(session), alike.Replace(file), onlyJob)
		if !slices.Equal(got, want) {
			t.Errorf("refusals for what is another's:\n%s\nfor what is nobody's:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	bob.showsNothingOf(alice, ids, append(ids, "alice-lab", "alice-ask", "alice-dead", "alice-fork", "../alice", alice.dir)...)

	if got, err := os.ReadFile(filepath.Join(alice.dir, "secret.py")); string(got) != "print('alice-file')" {
		t.Errorf("after the probes the tenant's file is %q, %v", got, err)
	}
	r := alice.do("get_variable", map[string]any{"session": "alice-lab", "name": "secret"})
	if got := client.Reply(r).Header("Status"); got != "completed" || !strings.Contains(string(r), "alice-secret") {
		t.Errorf("after the probes the tenant's variable is %s", r)
	}
	if r := alice.do("send_python_input", map[string]any{"text": "yes", "wait_seconds": 60}); !strings.Contains(string(r), "'yes'") {
		t.Errorf("after the probes the tenant's question is not open: %s", r)
	}
	if n := strings.Count(string(alice.do("list_jobs", map[string]any{"status": "cancelled"})), " cancelled"); n != 0 {
		t.Errorf("the probes have cancelled %d jobs", n)
	}
}

// steady returns a reply about the server without what changes by itself.
func steady(r client.Reply) string {
	return regexp.MustCompile(`(?m), up .*$|; the server itself .*$|, [^,]* free$`).ReplaceAllString(string(r), "")
}
