package needtest_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"asyncrepl/internal/test/must"
	"asyncrepl/internal/test/needtest"
)

// A verdict records how a test would have ended.
type verdict struct {
	testing.TB
	is string
}

func (v *verdict) Helper() {}

func (v *verdict) end(as string) { v.is = as; runtime.Goexit() }

func (v *verdict) Skip(...any)           { v.end("skipped") }
func (v *verdict) Skipf(string, ...any)  { v.end("skipped") }
func (v *verdict) Fatal(...any)          { v.end("failed") }
func (v *verdict) Fatalf(string, ...any) { v.end("failed") }

// Only what is missing skips a test. Any other error fails it.
func TestOnlyALackSkips(t *testing.T) {
	dir := t.TempDir()
	broken := filepath.Join(dir, "python")
	must.Do(t, os.WriteFile(broken, []byte("#!/bin/sh\necho Segmentation fault\nexit 139\n"), 0o755))
	lacks := filepath.Join(dir, "lacks")
	must.Do(t, os.WriteFile(lacks, []byte("#!/bin/sh\necho \"ModuleNotFoundError: No module named 'torch'\"\nexit 1\n"), 0o755))
	exit := exec.Command("false").Run()
	for name, c := range map[string]struct {
		ask  func(t testing.TB)
		want string
	}{
		"program":               {func(t testing.TB) { needtest.Program(t, "sh") }, ""},
		"no program":            {func(t testing.TB) { needtest.Program(t, "no-such-program") }, "skipped"},
		"program of no use":     {func(t testing.TB) { needtest.Program(t, dir+"/") }, "failed"},
		"no module":             {func(t testing.TB) { needtest.Module(t, lacks, "torch") }, "skipped"},
		"module of a module":    {func(t testing.TB) { needtest.Module(t, lacks, "pandas") }, "failed"},
		"broken interpreter":    {func(t testing.TB) { needtest.Module(t, broken, "torch") }, "failed"},
		"right":                 {func(t testing.TB) { needtest.Right(t, "x", nil, []byte("permission denied, once")) }, ""},
		"no right":              {func(t testing.TB) { needtest.Right(t, "x", fmt.Errorf("y: %w", syscall.EPERM), nil) }, "skipped"},
		"no right of a program": {func(t testing.TB) { needtest.Right(t, "x", exit, []byte("mount: Permission denied.")) }, "skipped"},
		"bad option":            {func(t testing.TB) { needtest.Right(t, "x", exit, []byte("mount: wrong fs type")) }, "failed"},
		"silent failure":        {func(t testing.TB) { needtest.Right(t, "x", exit, nil) }, "failed"},
		"other error":           {func(t testing.TB) { needtest.Unless(t, "x", errors.New("y"), syscall.EPERM) }, "failed"},
		"address":               {func(t testing.TB) { needtest.Listen(t, "tcp", "127.0.0.1:0") }, ""},
		"no address":            {func(t testing.TB) { needtest.Listen(t, "tcp6", "[2001:db8::1]:0") }, "skipped"},
		"bad path":              {func(t testing.TB) { needtest.Listen(t, "unix", dir+"/none/socket") }, "failed"},
	} {
		t.Run(name, func(t *testing.T) {
			v := &verdict{TB: t}
			done := make(chan struct{})
			go func() { // ends with its verdict
				defer close(done)
				c.ask(v)
			}()
			<-done
			if v.is != c.want {
				t.Errorf("the test is %q, want %q", v.is, c.want)
			}
		})
	}
}
