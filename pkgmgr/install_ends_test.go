package pkgmgr

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"asyncrepl/jobs"
	"asyncrepl/jobs/jobstest"
)

// noIndex is an address where no server listens.
const noIndex = "http://127.0.0.1:1/simple"

const indexRemedy = "check the network and the address, or set PIP_INDEX_URL and UV_DEFAULT_INDEX to an index that can be reached"

// ends goes through the ends that an install can have, one at a time in one environment with a real
// installer. Ends that take long with pip are tried with uv only; TestCause has pip's output.
func ends(t *testing.T, w *world, r *jobs.Registry, installer string) {
	w.wheel("spam", "2.0", "2")
	w.wheel("beans", "1.0", "3", "spam<2")
	w.wheel("ham", "1.0", "4", "spam>=2")
	w.wheel("far", "1.0", "5")
	w.wheel("needy", "1.0", "6", "not-there>=3")
	w.project("work space/my proj[1];$x", "proj", "1.0", "'first'", "")
	w.project("work space/edited", "edited", "1.0", "'here'", "")
	w.sdist("work space/archive-1.0.tar.gz", "archive", "1.0", "")
	w.sdist("work space/uncompiled-1.0.tar.gz", "uncompiled", "1.0",
		`import subprocess; subprocess.run(["/bin/sh", "-c", "gcc -c x.c"], env={"PATH": "/nowhere"}, check=True)`)
	w.sdist("work space/broken-1.0.tar.gz", "broken", "1.0", `raise ValueError("this can't be built")`)
	w.write("work space/list.txt", "# the list\nspam==1.0\n-r sub/more.txt\n", 0o666)
	w.write("work space/sub/more.txt", "beans\n", 0o666)
	w.write("work space/bounds.txt", "spam<2\n", 0o666)
	served := httptest.NewServer(http.FileServer(http.Dir(w.path("wheels"))))
	defer served.Close()
	unreachable := []string{"PIP_NO_INDEX=0", "PIP_FIND_LINKS=", "PIP_RETRIES=1", "PIP_INDEX_URL=" + noIndex,
		"UV_OFFLINE=0", "UV_FIND_LINKS=", "UV_HTTP_RETRIES=0", "UV_DEFAULT_INDEX=" + noIndex}
	loopback := []string{"PIP_NO_INDEX=0", "UV_OFFLINE=0", "PIP_INDEX_URL=" + served.URL + "/none", "UV_DEFAULT_INDEX=" + served.URL + "/none"}

	both := func(want string) map[string]string { return map[string]string{"pip": want, "uv": want} }
	for _, step := range []struct {
		text string
		want map[string]string // the receipt, by installer
		note string
		env  []string // on top of the world's
	}{
		{"spam", both("completed (already satisfied)"), "", nil},
		{"spam >= 2", both("completed (installed spam 2.0 (was 1.0))"), "", nil},
		{`ham; python_version < "3"`, map[string]string{"uv": "completed (nothing installed: already satisfied or ruled out by a marker)"}, "", nil},
		{"-r list.txt", map[string]string{"uv": "completed (installed beans 1.0, spam 1.0 (was 2.0))"}, "", nil},
		{"-r list.txt -c bounds.txt", map[string]string{"uv": "completed (already satisfied)"}, "", nil},
		{served.URL + `/far-1.0-py3-none-any.whl "./my proj[1];$x" -e edited spam<2 archive-1.0.tar.gz -r list.txt -c bounds.txt`, map[string]string{
			"pip": "completed (installed spam 1.0 (was 2.0), archive 1.0, beans 1.0, edited 1.0, far 1.0, proj 1.0)",
			"uv":  "completed (installed archive 1.0, edited 1.0, far 1.0, proj 1.0)"}, "", append(loopback, "PIP_FIND_LINKS="+w.path("wheels"))},
		{"spam @ file://" + w.path("wheels") + "/spam-1.0-py3-none-any.whl", map[string]string{"uv": "completed (installed spam 1.0)"}, "", nil},

		{"spam=1", map[string]string{"uv": "failed (exit 2: Failed to parse: `spam=1`: no such comparison operator…"}, "", nil},
		{"spam==99", map[string]string{"pip": "failed (exit 1: No matching distribution found for spam==99)",
			"uv": "failed (exit 1: No solution found when resolving dependencies: Because there is no version of spam==99 and you require spam==99, …"}, "", nil},
		{"needy", map[string]string{"uv": "failed (exit 1: No solution found when resolving dependencies: Because not-there was not found in the cache…"}, "", nil},
		{"beans ham", map[string]string{"uv": "failed (exit 1: No solution found when resolving dependencies: Because …"}, "", nil},
		{"spam7", map[string]string{"pip": "failed (exit 1: http://127.0.0.1:1 can't be reached (connection refused); " + indexRemedy + ")",
			"uv": "failed (exit 2: http://127.0.0.1:1 can't be reached (connection refused); " + indexRemedy + ")"}, "", unreachable},
		{served.URL + "/gone-1.0-py3-none-any.whl", map[string]string{"uv": "failed (exit 1: Failed to download `gone @ " + served.URL + "/gone-1.0-py3-none-any.whl`: HTTP status client error (404 Not Found)…"}, "", loopback},
		{"./uncompiled-1.0.tar.gz", both("failed (exit 1: building a package needs a compiler, and there is no gcc; install one (Debian, Ubuntu: apt install build-essential), or ask for a version that has a wheel)"), "", nil},
		{"./broken-1.0.tar.gz", map[string]string{"uv": "failed (exit 1: Failed to build `broken @ file://…"}, "", nil},
		{"git+file://" + w.path("nothing"), both("failed (exit 1: git: '" + w.path("nothing") + "' does not appear to be a git repository; check the address and who may read it)"), "", nil},
		{"spam>=2", map[string]string{"pip": "completed (installed spam 2.0 (was 1.0))"}, "conflict: beans 1.0 requires spam<2, but you have spam 2.0 which is incompatible", nil},
	} {
		want, ok := step.want[installer]
		if !ok {
			continue
		}
		j := start(t, r, w.with(step.env...), step.text)
		record := jobstest.End(t, j)
		begin, isBegin := strings.CutSuffix(want, "…")
		if got := record.Receipt.Text(); got != want && !(isBegin && strings.HasPrefix(got, begin)) {
			t.Errorf("%s: %s\nwant %s\n%s", step.text, got, want, jobstest.Output(j))
		}
		if got := strings.Join(record.Receipt.Notes, "; "); got != step.note {
			t.Errorf("%s: notes %q, want %q\n%s", step.text, got, step.note, jobstest.Output(j))
		}
	}
	w.wheel("late", "1.0", "7")
	onFullDisk(t, w, r, w.venv()+"/bin/python")
}
