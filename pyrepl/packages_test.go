package pyrepl_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"asyncrepl/jobs/jobstest"
)

// What was installed while the session ran, by whatever program, is importable in its next job: a
// module, and a project whose path file is read once. A path file that fails harms nothing.
func TestInstalledWhileSessionRuns(t *testing.T) {
	inFull(t)
	t.Parallel()
	env := t.TempDir()
	if out, err := exec.Command(python(t), "-I", "-m", "venv", "--without-pip", env).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	b := newBenchOn(t, filepath.Join(env, "bin/python"), t.TempDir())
	record, _ := b.want("import sys, sysconfig; sys.read = 0; kept = 1; sysconfig.get_path('purelib')", "completed")
	site := strings.Trim(record.Result, "'")
	b.want("import early", "failed (ModuleNotFoundError: No module named 'early')")
	write(t, site, "early.py", "value = 'early'\n")
	b.result("import early; early.value, kept", "('early', 1)")
	write(t, site, "project/late.py", "value = 'late'\n")
	write(t, site, "fails.pth", "import sys; raise SystemExit(3)\n")
	write(t, site, "project.pth", "project\nimport sys; sys.read += 1\n")
	b.result("import late; late.value, kept, sys.read", "('late', 1, 1)")
	write(t, site, "other.py", "")
	b.result("import other; sys.read", "1")
	if err := os.RemoveAll(site); err != nil {
		t.Fatal(err)
	}
	b.result("kept", "1")
}

func TestImported(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	ask := func() []string {
		t.Helper()
		got, err := b.s.Imported(context.Background(), []string{"json", "json.decoder", "wave", "no.such"})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := ask(); got != nil {
		t.Errorf("before the first job: %q", got)
	}
	b.want("import json, importlib, sys; sys.modules.pop('wave', None)", "completed")
	if got, want := ask(), []string{"json", "json.decoder"}; !slices.Equal(got, want) {
		t.Errorf("imported: %q, want %q", got, want)
	}
	j := b.start("input()")
	jobstest.Asks(t, j)
	if got := ask(); got != nil {
		t.Errorf("of a busy session: %q", got)
	}
}
