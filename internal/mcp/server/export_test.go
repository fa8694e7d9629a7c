package server

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"asyncrepl/internal/engine"
	"asyncrepl/internal/text/view"
	"asyncrepl/jobs"
)

// An export says where it is and what it holds, and what could not be exported is explained. The
// file holds the output of the jobs.
func TestExportSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.dial(engine.Scope{})
	id := field(c.call("execute_python", given{"code": `out "shown\n"`, "session": "lab"}), "Job ID")
	w.histories["lab"] = engine.History{Dropped: 1200, Entries: []engine.Entry{
		{Job: id, Work: engine.Work{Code: "print('shown')"}, Began: time.Now(), Ended: time.Now(), Receipt: jobs.Receipt{End: jobs.Returned}},
		{Lost: "Python was restarted; variables lost"},
		{Job: "forgotten", Work: engine.Work{Code: "x"}, Began: time.Now(), Ended: time.Now(), Receipt: jobs.Receipt{End: jobs.Returned}},
	}}
	path := filepath.Join(w.workspace, "lab.ipynb")
	want := "Session: lab\nExported: " + path + ", 4 cells, %d bytes\nNote: left out before these: 1,200 jobs, whose code the session no longer keeps\n"
	for _, also := range []string{"", ", in place of an earlier file"} {
		got := c.call("export_session", given{"path": "lab.ipynb", "session": "lab", "overwrite": also != ""})
		text, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(text), `"shown\n"`) || !strings.Contains(string(text), "the output of this job is gone") {
			t.Errorf("%v; %s", err, text)
		}
		want := strings.Replace(fmt.Sprintf(strings.Replace(want, "%d", "%s", 1), view.Count(len(text))), " bytes", " bytes"+also, 1)
		if got != want {
			t.Errorf("reply:\n%swant:\n%s", got, want)
		}
	}
	for _, test := range []struct{ path, session, want string }{
		{"x.ipynb", "unused", "No session unused. There are: default, lab."},
		{"x.ipynb", "default", "Session default has not run anything yet"},
		{"x.txt", "lab", "The path must end in .ipynb, for a Jupyter notebook, or in .py"},
		{"lab.ipynb", "lab", "Writing lab.ipynb: file already exists; overwrite=true replaces it"},
		{"../x.py", "lab", "Writing ../x.py: this leads out of the workspace: give a path in it, and no link that leads out or is absolute"},
		{" ", "lab", "path is empty."},
	} {
		if got := c.refused("export_session", given{"path": test.path, "session": test.session}); got != test.want {
			t.Errorf("%q of session %s: %q, want %q", test.path, test.session, got, test.want)
		}
	}
}
