package server

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"asyncrepl/internal/engine"
	"asyncrepl/jobs"
)

// A job that asks for something has a title and a limit of its own, and is not what a session ran
// last.
func TestJobsOfTheNamespaceStandAside(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ timeout, want time.Duration }{{0, askTime}, {time.Second, time.Second}, {time.Hour, askTime}} {
		w := newWorld(t)
		w.timeout = tt.timeout
		w.config.Toolsets = toolsets
		c := w.dial(engine.Scope{})
		ran := field(c.call("execute_python", given{"code": `result "1"`}), "Job ID")
		for title, reply := range map[string]string{
			`get_variable result "2"`:   c.call("get_variable", given{"name": `result "2"`}),
			"set_variable x":            c.call("set_variable", given{"name": "x", "value": nil}),
			"delete_variables x, y":     c.call("delete_variables", given{"names": []string{"x", "y"}}),
			"delete_variables all":      c.call("delete_variables", given{"all": true}),
			`inspect_object result "3"`: c.call("inspect_object", given{"name": `result "3"`}),
			`complete_code out "é`:      c.call("complete_code", given{"code": "result \"4\"\nout \"é\"", "cursor": 17}),
			`get_variable result "2" …`: c.call("get_variable", given{"name": "result \"2\"\nresult \"3\""}),
		} {
			record := w.job(reply).Record()
			if record.Status != jobs.Completed || record.Title != title || !record.Aside || record.Timeout != tt.want || record.Session != "default" {
				t.Errorf("%s: %+v", title, record)
			}
		}
		if got := field(c.call("check_python_status", nil), "Job ID"); got != ran {
			t.Errorf("the last job is %s, not %s", got, ran)
		}
		running := field(c.call("get_variable", given{"name": `ask line "? "`}), "Job ID")
		if got := field(c.call("check_python_status", nil), "Job ID"); got != running {
			t.Errorf("the job that runs is %s, not %s", got, running)
		}
	}
}

func TestRequestsSayWhatWasAsked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.config.Toolsets = toolsets
	c := w.dial(engine.Scope{})
	c.call("execute_python", given{"code": `result "1"`})
	c.call("get_variable", given{"name": `result "2"`, "format": "json"})
	c.call("set_variable", given{"name": "x", "value": []any{1, nil}})
	c.call("delete_variables", given{"names": []string{"x"}})
	c.call("complete_code", given{"code": `result "é"`})
	c.call("inspect_object", given{"name": `result "3"`, "source": true})
	want := []engine.Request{
		{Do: "get", Format: "json"}, {Do: "set", Name: "x", Value: "[1,null]"},
		{Do: "delete", Names: []string{"x"}}, {Do: "complete", At: 10},
		{Do: "inspect", Source: true},
	}
	if d := cmp.Diff(want, w.asked); d != "" {
		t.Error(d)
	}
}

// A reply about an object has the beginning of a long documentation, unless the source is asked for.
func TestInspectShowsTheBeginning(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.config.Toolsets = toolsets
	c := w.dial(engine.Scope{})
	long := fmt.Sprintf("result %q", strings.Repeat("a line of the text\n", 500))
	short, source := c.call("inspect_object", given{"name": long}), c.call("inspect_object", given{"name": long, "source": true})
	if n := len(short); n < inspectMax-200 || n > inspectMax {
		t.Errorf("the reply has %d characters, not about %d", n, inspectMax)
	}
	if cursor := field(short, "Cursor"); !strings.Contains(field(short, "Omitted"), "(cursor "+cursor+"..9500)") {
		t.Errorf("the rest can't be read from cursor %s on: %s", cursor, field(short, "Omitted"))
	}
	if n := len(source); n < 9500 {
		t.Errorf("the reply with the source has %d characters", n)
	}
}
