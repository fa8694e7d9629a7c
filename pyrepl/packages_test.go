package pyrepl_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"asyncrepl/jobs/jobstest"
)

// A path file that came while the session ran is read before its next job, and only once; one that
// fails harms nothing.
func TestRefreshReadsPathFiles(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	b.want("kept = 1\nimport sys; sys.fresh = 0", "completed")
	write("project/late.py", "value = 'late'\n")
	b.s.Refresh([]string{
		write("fails.pth", "import sys; raise SystemExit(3)\n"),
		write("gone.pth", ""),
		filepath.Join(dir, "missing.pth"),
	})
	b.result("kept", "1")
	b.s.Refresh([]string{write("project.pth", filepath.Join(dir, "project")+"\nimport sys; sys.fresh += 1\n")})
	b.result("import late; late.value, kept, sys.fresh", "('late', 1, 1)")
	b.result("sys.fresh", "1")
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
