package engine_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"asyncrepl/internal/engine"
	"asyncrepl/internal/sandbox"
	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/needtest"
	"asyncrepl/internal/test/polltest"
	"asyncrepl/jobs/jobstest"
)

// sealsVar has the seals of a test that runs inside, as JSON.
const sealsVar = "REPL_TEST_SEALS"

// inside returns a command that runs a test or benchmark of this binary where files can't be written, with
// their seals.
func inside(t testing.TB, run string, files []string) *exec.Cmd {
	t.Helper()
	needtest.Program(t, "bwrap")
	args := []string{"--bind", "/", "/", "--dev-bind", "/dev", "/dev", "--die-with-parent"}
	var seals []sandbox.Seal
	for _, f := range files {
		must.Do(t, os.WriteFile(f, []byte("protected"), 0o644))
		st := must.Get(os.Stat(f))(t).Sys().(*syscall.Stat_t)
		seals = append(seals, sandbox.Seal{Path: f, Device: uint64(st.Dev), Inode: st.Ino, ReadOnly: true})
		args = append(args, "--ro-bind", f, f)
	}
	seals = append(seals, sandbox.Seal{Path: "/nothing"}) // what jobs write can change
	cmd := exec.Command("bwrap", append(args, must.Get(os.Executable())(t), run)...)
	cmd.Env = append(os.Environ(), sealsVar+"="+string(must.Get(json.Marshal(seals))(t)))
	cmd.Stderr = os.Stderr
	return cmd
}

// sealsInside returns the seals of a test that inside has started, and nil otherwise.
func sealsInside(t testing.TB) (seals []sandbox.Seal) {
	t.Helper()
	if text := os.Getenv(sealsVar); text != "" {
		must.Do(t, json.Unmarshal([]byte(text), &seals))
	}
	return seals
}

// An engine says of each protected file that a program outside replaces or removes that it can be written now,
// and of nothing else.
func TestUnprotected(t *testing.T) {
	if seals := sealsInside(t); seals != nil {
		unprotectedInside(t, seals)
		return
	}
	t.Parallel()
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	cmd := inside(t, "-test.run=^TestUnprotected$", []string{path("kept"), path("replaced"), path("moved")})
	in, out := must.Get(cmd.StdinPipe())(t), must.Get(cmd.StdoutPipe())(t)
	must.Do(t, cmd.Start())
	t.Cleanup(func() { in.Close(); cmd.Process.Kill(); cmd.Wait() })
	lines := bufio.NewScanner(out)
	says := func(want []string) {
		t.Helper()
		lines.Scan()
		if got := lines.Text(); got != fmt.Sprintf("%q", want) {
			t.Errorf("it says %s, want %q", got, want)
		}
		must.Get(in.Write([]byte("\n")))(t)
	}
	const cure = "; restart the server to protect it again"
	replaced := path("replaced") + " can be written now: a program outside replaced it" + cure
	moved := path("moved") + " can be written now: a program outside removed it" + cure
	must.Do(t, os.WriteFile(path("next"), []byte("new"), 0o644))
	must.Do(t, os.WriteFile(path("kept"), []byte("changed in place"), 0o644))
	says(nil)
	must.Do(t, os.Rename(path("next"), path("replaced")))
	says([]string{replaced})
	must.Do(t, os.Rename(path("moved"), path("backup")))
	says([]string{replaced, moved})
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// unprotectedInside prints what an engine says when that has changed, and waits for a line after each.
func unprotectedInside(t *testing.T, seals []sandbox.Seal) {
	e := must.Get(engine.New(engine.Config{Workspace: "/", Shell: "/bin/sh", MaxOutput: 1 << 20, Sandbox: &engine.Confinement{Seals: seals}}))(t)
	defer e.Close()
	in := bufio.NewReader(os.Stdin)
	for n := range 3 {
		var last []string
		polltest.Check(t, func() error {
			if last = e.Unprotected(); len(last) != n {
				return fmt.Errorf("%q", last)
			}
			return nil
		})
		if st := e.Status(e.Scope(engine.Client{Env: os.Environ()})).Unprotected; !slices.Equal(st, last) {
			t.Errorf("the status has %q, want %q", st, last)
		}
		fmt.Printf("%q\n", last)
		must.Get(in.ReadString('\n'))(t)
	}
}

// BenchmarkSeals measures what 40 protected files cost a reply. The floor is the shortest job of an engine
// without a sandbox.
func BenchmarkSeals(b *testing.B) {
	seals := sealsInside(b)
	if seals == nil {
		dir := b.TempDir()
		var files []string
		for i := range 40 {
			files = append(files, filepath.Join(dir, fmt.Sprint(i)))
		}
		cmd := inside(b, "-test.run=^$", files)
		cmd.Args = append(cmd.Args, "-test.bench=^BenchmarkSeals$")
		cmd.Stdout = os.Stdout
		must.Do(b, cmd.Run())
		return
	}
	b.Run("check", func(b *testing.B) {
		for b.Loop() {
			if got := sandbox.Unprotected(seals); got != nil {
				b.Fatalf("unprotected: %q", got)
			}
		}
	})
	for name, box := range map[string]*engine.Confinement{"floor": nil, "job": {Seals: seals}} {
		b.Run(name, func(b *testing.B) {
			c := config(b)
			c.Sandbox = box
			bench := newBench(b, c)
			sc := bench.Scope()
			job := func() {
				jobstest.End(b, bench.python(sc, "lab", "x = 1"))
				if got := bench.Unprotected(); got != nil {
					b.Fatalf("unprotected: %q", got)
				}
			}
			job() // starts Python
			for b.Loop() {
				job()
			}
		})
	}
}
