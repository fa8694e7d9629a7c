package server

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"asyncrepl/internal/engine"
	"asyncrepl/internal/mcp/arguments"
	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// longest runs n jobs with the longest texts and returns their ids, the oldest first.
func (w *world) longest(n int, lines ...string) (list []string) {
	w.t.Helper()
	for i := range n {
		run := &program{w, code(lines...)}
		j := jobstest.Start(w.t, w.jobs, jobs.Spec{Kind: jobs.Python, Session: fmt.Sprint("s", i), Title: strings.Repeat("t", 100)}, run)
		list = append(list, j.ID())
	}
	for _, id := range list {
		j, err := w.jobs.Get(id)
		if err != nil {
			w.t.Fatal(err)
		}
		if err := j.Await(w.t.Context()); err != nil {
			w.t.Fatal(err)
		}
	}
	return list
}

// fits fails the test if a reply is longer than clients accept, or does not name each of these jobs
// in order, one on a line.
func fits(t *testing.T, reply string, of []string) {
	t.Helper()
	if n := chars(reply); n > arguments.MaxText {
		t.Errorf("%d characters, the most allowed are %d", n, arguments.MaxText)
	}
	var named []string
	for line := range strings.Lines(reply) {
		if id := ids.FindString(line); strings.HasPrefix(strings.TrimPrefix(line, "Job ID: "), id) && id != "" {
			named = append(named, id)
		}
	}
	if got, want := strings.Join(named, " "), strings.Join(of, " "); got != want {
		t.Errorf("it names %d jobs, not these %d in order:\n%s", len(named), len(of), beginning(reply))
	}
}

const long = "ValueError: " + "1234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890" +
	"1234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890" +
	"1234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890"

// However long the texts of jobs are, replies keep the limits of clients, and every job can be
// reached.
func TestListsAreBounded(t *testing.T) {
	t.Parallel()
	raise := fmt.Sprintf("raise %q", long)
	for most, n := range map[int]int{0: arguments.MaxList, 2000: 20} {
		t.Run(fmt.Sprint("list_jobs, ", most), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.config.MaxChars = most
			all := w.longest(n, raise)
			c := w.dial(engine.Scope{})
			a := given{"limit": arguments.MaxList}
			for page := 0; len(all) > 0; page++ {
				got := c.call("list_jobs", a)
				head, list, _ := strings.Cut(got, "\n\n")
				shown := strings.Count(list, "\n")
				if has := chars(got); has > w.config.replyChars() {
					t.Errorf("page %d: %d characters, of %d that a reply may have", page, has, w.config.replyChars())
				}
				if shown == 0 || shown > len(all) || !strings.HasPrefix(head, fmt.Sprintf("Jobs: %d,", shown)) {
					t.Fatalf("page %d of %d jobs:\n%s", page, len(all), beginning(got))
				}
				var want []string
				for range shown {
					want, all = append(want, all[len(all)-1]), all[:len(all)-1]
				}
				fits(t, got, want)
				a["before"] = want[shown-1]
				if more := field(got, "More"); (more == "list_jobs with before="+want[shown-1]) != (len(all) > 0) {
					t.Errorf("page %d: more: %q, of %d", page, more, len(all))
				}
			}
		})
	}
	t.Run("wait_for_jobs, lines", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		all := w.longest(arguments.MaxList, raise)
		fits(t, w.dial(engine.Scope{}).call("wait_for_jobs", given{"job_ids": all, "until": "all"}), all)
	})
	t.Run("wait_for_jobs, blocks", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		note := fmt.Sprintf("note %q", long)
		all := w.longest(blocksMax, note, note, note, note, note, note, note, note, raise)
		fits(t, w.dial(engine.Scope{}).call("wait_for_jobs", given{"job_ids": all, "until": "all"}), all)
	})
	t.Run("send_python_input", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.longest(arguments.MaxList, fmt.Sprintf("ask line %q", long))
		got := w.dial(engine.Scope{}).refused("send_python_input", given{"text": "x"})
		if n := chars(got); n > arguments.MaxText || !strings.HasSuffix(got, " more: see list_jobs with status=waiting_input") {
			t.Errorf("%d characters, the most allowed are %d:\n%s", n, arguments.MaxText, beginning(got))
		}
	})
	t.Run("restart_python_worker", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		c := w.dial(engine.Scope{})
		for range arguments.MaxList {
			jobstest.Start(t, w.jobs, jobs.Spec{Kind: jobs.Python, Session: "default", Title: strings.Repeat("t", lineMax)}, &program{w, "hang"})
		}
		got := c.call("restart_python_worker", nil)
		if n, rest := chars(got), fmt.Sprintf("\nMore: %d jobs: list_jobs with session=default\n", arguments.MaxList-endedMax); n > arguments.MaxText || !strings.Contains(got, rest) || strings.Count(got, "\nEnded: ") != endedMax {
			t.Errorf("%d characters, the most allowed are %d:\n%s", n, arguments.MaxText, beginning(got))
		}
	})
	t.Run("notes", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		var lines []string
		for range arguments.MaxList {
			lines = append(lines, fmt.Sprintf("note %q", long))
		}
		all := w.longest(1, lines...)
		got := w.dial(engine.Scope{}).call("check_job_status", given{"job_id": all[0]})
		if rest := fmt.Sprintf("\nNote: %d more: read the resource job://%s\n", arguments.MaxList-notesMax, all[0]); chars(got) > arguments.MaxText || !strings.Contains(got, rest) {
			t.Errorf("%d characters, the most allowed are %d:\n%s", chars(got), arguments.MaxText, beginning(got))
		}
	})
}

// Some clients cut replies at fewer characters than the usual default.
func TestMaxCharsIsASetting(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.config.MaxChars, w.config.Toolsets = 2000, toolsets
	if err := os.WriteFile(filepath.Join(w.workspace, "file"), []byte(strings.Repeat("line\n", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range 300 {
		if err := os.WriteFile(filepath.Join(w.workspace, fmt.Sprintf("file%03d", i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w.vars["default"] = engine.Variables{Total: 500, Vars: slices.Repeat([]engine.Variable{{Name: "x", Type: "int"}}, 500)}
	c := w.dial(engine.Scope{})
	reply := c.call("execute_command_async", given{"command": "flood 1000", "wait_seconds": 60})
	id := field(reply, "Job ID")
	w.longest(20, `out "x"`)
	for i := range 20 {
		c.call("create_session", given{"name": fmt.Sprint("long-", i, strings.Repeat("x", 50))})
	}
	for name, got := range map[string]string{
		"execute":   reply,
		"jobs":      c.call("list_jobs", nil),
		"sessions":  c.call("list_sessions", nil),
		"search":    c.call("search_job_output", given{"job_id": id, "pattern": ".", "max_matches": 200}),
		"variables": c.call("list_variables", nil),
		"read_file": c.call("read_file", given{"path": "file"}),
		"files":     c.call("list_files", nil),
	} {
		if n := chars(got); n < 500 || n > 2000+200 {
			t.Errorf("%s: %d characters:\n%s", name, n, got)
		}
	}
	if n := chars(c.call("check_job_status", given{"job_id": id, "max_chars": 5000})); n < 4000 {
		t.Errorf("%d characters of a call that asks for 5,000", n)
	}
	list := string(c.request("tools/list", nil).Result)
	for _, want := range []string{`"default 2000, max 45000"`, `"default 2000 characters"`} {
		if !strings.Contains(list, want) || strings.Contains(list, "16000") {
			t.Errorf("the list of tools lacks %s", want)
		}
	}
}

// A command is cut at 60 characters in lists of jobs. A job of a long list that a call has waited
// for needs no command if it has completed.
func TestListsCutCommands(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.dial(engine.Scope{})
	completes := "out " + strconv.Quote(strings.Repeat("0123456789", 8))
	raises := "raise " + strconv.Quote(strings.Repeat("0123456789", 8))
	var all, long []string
	for i := range 30 {
		command, cut := completes, ""
		if i == 0 {
			command, cut = raises, ": "+raises[:59]+"…"
		}
		id := field(c.call("execute_command_async", given{"command": command}), "Job ID")
		all, long = append(all, id), append(long, cut)
	}
	waited := c.call("wait_for_jobs", given{"job_ids": all, "until": "all"})
	listed := c.call("list_jobs", given{"limit": 30})
	if n := chars(waited); n > 1800 {
		t.Errorf("the wait for 30 jobs is answered in %d characters, want 1,800 at most", n)
	}
	for i, id := range all {
		lineOf := func(reply string) string {
			_, rest, _ := strings.Cut(reply, "\n"+id)
			line, _, _ := strings.Cut(rest, "\n")
			return line
		}
		if got := lineOf(waited); !matches(" *, shell, *s"+long[i], got) {
			t.Errorf("wait_for_jobs shows %q, want the command as %q", got, long[i])
		}
		cut := cmp.Or(long[i], ": "+completes[:59]+"…")
		if got := lineOf(listed); !matches(" *, shell, *s"+cut, got) {
			t.Errorf("list_jobs shows %q, want the command as %q", got, cut)
		}
	}
}
