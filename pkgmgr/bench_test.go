package pkgmgr

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// BenchmarkInterpreter measures the cost of the first use of Python before a worker is started,
// beside the start of a bare Python: in a process that has found its environment, in a workspace
// that has one, and in a new workspace. floor=path includes the shim of a version manager, if there
// is one.
func BenchmarkInterpreter(b *testing.B) {
	bare := func(b *testing.B, argv ...string) {
		for b.Loop() {
			if err := exec.Command(argv[0], argv[1:]...).Run(); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.Run("floor=bare", func(b *testing.B) { bare(b, realPython(), "-c", "pass") })
	b.Run("floor=path", func(b *testing.B) { bare(b, "python3", "-c", "pass") })

	b.Run("kept", func(b *testing.B) {
		w := newWorld(b)
		w.environment("work space/.venv")
		m := New(w.cfg)
		for b.Loop() {
			find(b, m)
		}
	})
	b.Run("there", func(b *testing.B) {
		w := newWorld(b)
		w.environment("work space/.venv")
		for b.Loop() {
			find(b, New(w.cfg))
		}
	})
	b.Run("new/venv", func(b *testing.B) { benchNew(b, newWorld(b)) })
	b.Run("new/uv", func(b *testing.B) {
		w := newWorld(b)
		w.addUV()
		benchNew(b, w)
	})
	b.Run("new/uv/shim", func(b *testing.B) {
		w := newWorld(b)
		w.addUV()
		w.cfg.Path = append(filepath.SplitList(os.Getenv("PATH")), w.cfg.Path...)
		w.cfg.Env = os.Environ()
		benchNew(b, w)
	})
}

func find(b *testing.B, m *Manager) {
	if _, err := m.Interpreter(context.Background()); err != nil {
		b.Fatal(err)
	}
}

// benchNew finds the environment of a workspace that has none. Its python3 is not that of a version
// manager unless the world's PATH says so.
func benchNew(b *testing.B, w *world) {
	if err := os.Remove(w.path("bin/python3")); err != nil {
		b.Fatal(err)
	}
	w.link(realPython(), "bin/python3")
	for b.Loop() {
		find(b, New(w.cfg))
		b.StopTimer()
		if err := os.RemoveAll(w.venv()); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
