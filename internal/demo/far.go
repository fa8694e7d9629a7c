//go:build unix

package demo

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"time"
)

// A far is a place named box: a directory of this machine that is the home and the temporary directory there.
// The carrier is a shell that notes its process in the workspace of the server, so that a job can kill the link.
type far struct {
	dir  string
	near string // the workspace of the server
	file string // the file of places
}

// carrier is the script of the carrier. Its arguments are the file for its process and the directory of the place.
const carrier = `echo $$ >"$1"; unset XDG_CACHE_HOME XDG_STATE_HOME; export HOME="$2" TMPDIR="$2"; shift 2; exec "$@"`

func newFar(dir string) (*far, error) {
	f := &far{dir: filepath.Join(dir, "far"), near: filepath.Join(dir, "near"), file: filepath.Join(dir, "places.json")}
	box := map[string]any{
		"exec":      []string{"/bin/sh", "-c", carrier, "sh", filepath.Join(f.near, "link.pid"), f.dir},
		"workspace": filepath.Join(f.dir, "work"),
	}
	text, err := json.Marshal(map[string]any{"places": map[string]any{"box": box}})
	return f, errors.Join(err, os.Mkdir(f.dir, 0o700), os.Mkdir(f.near, 0o700), os.WriteFile(f.file, text, 0o600))
}

// awaitEnd returns when no engine is at the place any more, or after 5 s. Its server has asked it to
// end.
func (f *far) awaitEnd() {
	for late := time.Now().Add(5 * time.Second); time.Now().Before(late); time.Sleep(10 * time.Millisecond) {
		if locks, _ := filepath.Glob(filepath.Join(f.dir, "async-repl-*", "*.lock")); len(locks) == 0 {
			return
		}
	}
}
