package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"asyncrepl/internal/mcp/client"
	"asyncrepl/internal/test/readmetest"
)

// A moved row says what users of another server write there and what does the same here. The
// tables of docs/moving.md are made of these rows, so that they show only calls that a test makes.
type moved struct {
	theirs string   // a call, flag or variable, as they write it
	start  []string // settings here, NAME=VALUE or -name=value; nil: tools are called
	own    bool     // the server makes the environment of its workspace
	http   bool     // start makes it serve over HTTP
	calls  []made   // in the state that the rows before have left, or with start in a server of their own
	note   string   // what differs
	refuse string   // part of the error with which a start with these settings ends
}

// A made call is one that a test makes.
type made struct {
	tool string // or a method and a path of HTTP, which has the argument body
	args []any  // pairs of name and value; a value can be shown or lastJob
	want string // part of the reply
}

// A shown value stands on the page. Of other values only the name of the parameter does.
type shown struct{ value any }

// lastJob stands for the last job that a reply has named.
const lastJob = "<job>"

// ourPython stands for an interpreter. Finding one takes time, and a server, which is this program
// too, has not asked for it.
const ourPython = "<python>"

func (c made) isWeb() bool { return strings.Contains(c.tool, " ") }

// String returns the call as the page shows it.
func (c made) String() string {
	var args []string
	for i := 0; i < len(c.args); i += 2 {
		arg := c.args[i].(string)
		if s, ok := c.args[i+1].(shown); ok {
			arg += fmt.Sprintf("=%#v", s.value)
		}
		args = append(args, arg)
	}
	if c.isWeb() {
		call, _, _ := strings.Cut(c.tool, "/files/")
		return "`" + call + "/files/PATH`"
	}
	return fmt.Sprintf("`%s(%s)`", c.tool, strings.Join(args, ", "))
}

// movedTable returns the table of what users of a project write.
func movedTable(rows []moved) string {
	var b strings.Builder
	b.WriteString("| there | here | what differs |\n|---|---|---|\n")
	for _, row := range rows {
		var here []string
		for _, setting := range row.start {
			name, _, _ := strings.Cut(setting, "=")
			here = append(here, "`"+name+"`")
		}
		for _, c := range row.calls {
			if text := c.String(); (row.start == nil || c.isWeb()) && !slices.Contains(here, text) {
				here = append(here, text)
			}
		}
		if here == nil {
			here = []string{"–"}
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", row.theirs, strings.Join(here, ", "), row.note)
	}
	return b.String()
}

// TestDocsOfMoving holds the tables of docs/moving.md to the rows that are tried.
func TestDocsOfMoving(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(movedFrom)) {
		readmetest.Part(t, "docs/moving.md", name, movedTable(movedFrom[name]), *update)
	}
}

// Each call that docs/moving.md names for users of other servers is made, and does what they need.
func TestMoving(t *testing.T) {
	if testing.Short() {
		t.Skip("makes environments and installs packages")
	}
	t.Parallel()
	for name, rows := range movedFrom {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			index := t.TempDir()
			saveWheel(t, index, "replwheel", "1.0", "value = 1")
			env := []string{
				"REPL_TOOLSETS=all", "REPL_GRACE=110s",
				"PIP_FIND_LINKS=" + index, "PIP_NO_INDEX=1", "UV_FIND_LINKS=" + index, "UV_NO_INDEX=1", "UV_OFFLINE=1",
			}
			m := &mover{started: startServer(t, append([]string{ownEnvironment}, env...)...)}
			m.write("script.py", "import sys; print('ran', *sys.argv[1:])")
			for _, row := range rows {
				t.Run(row.theirs, func(t *testing.T) {
					if row.start == nil {
						m.try(t, row)
					} else {
						startWith(t, row, env...)
					}
				})
			}
		})
	}
}

// A mover makes the calls of rows on one server.
type mover struct {
	*started
	job string // the last one that a reply has named
}

// try makes the calls of a row.
func (m *mover) try(t *testing.T, row moved) {
	for _, c := range row.calls {
		args := pairs(c.args)
		for name, value := range args {
			if s, ok := value.(shown); ok {
				args[name] = s.value
			} else if value == lastJob {
				args[name] = m.job
			}
		}
		if method, path, ok := strings.Cut(c.tool, " "); ok {
			status, text := request{method: method, url: strings.TrimSuffix(m.url(), "/mcp") + path, message: args["body"].(string)}.answer(t)
			if got := fmt.Sprint(status, " ", text); got != c.want {
				t.Errorf("%s: %q, want %q", c, got, c.want)
			}
			continue
		}
		r, err := m.Call(m.ctx(), c.tool, args)
		if err != nil {
			t.Fatal(err)
		}
		if id := r.Header("Job ID"); id != "" {
			m.job = id
		}
		if !strings.Contains(string(r), c.want) {
			t.Errorf("%s does not say %q:\n%s", c, c.want, r)
		}
	}
}

// startWith starts a server with the settings of a row, in which … stands for its workspace, and
// makes the calls of the row.
func startWith(t *testing.T, row moved, env ...string) {
	if !row.own {
		env = append(env, "REPL_PYTHON="+realPython())
	}
	s := prepare(t, env...)
	s.write("script.py", "pass")
	for _, setting := range row.start {
		setting = strings.NewReplacer("…", s.dir, ourPython, realPython()).Replace(setting)
		if strings.HasPrefix(setting, "-") {
			s.cmd.Args = append(s.cmd.Args, setting)
		} else {
			s.cmd.Env = append(s.cmd.Env, setting)
		}
	}
	if s.setting("REPL_WORKDIR") == "/" {
		notApart(t, "no workspace holds the home directory")
		here(t, "no workspace holds the file of places")
	}
	if slices.ContainsFunc(s.cmd.Args, func(arg string) bool { return strings.HasPrefix(arg, "-venv-dir=") }) {
		here(t, "the environment there is in the workspace, or is that of the key python")
	}
	if row.refuse != "" {
		s.begin()
		if got := s.exit(); got == "exit status 0" || !strings.Contains(s.log.String(), row.refuse) {
			t.Errorf("%s, log %q", got, s.log)
		}
		return
	}
	if row.http {
		s.begin()
		s.Client = s.join(client.Newer, "")
	} else {
		s.open()
	}
	(&mover{started: s}).try(t, row)
}
