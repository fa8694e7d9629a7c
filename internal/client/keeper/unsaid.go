//go:build unix

package keeper

import (
	"os"
	"path/filepath"
	"strings"
	"time"
)

// An Unsaid keeps what no reply has said of jobs when an engine ends without a client, for the first reply of
// the next engine of the same identity. Each engine writes a file of its own.
type Unsaid struct {
	Dir      string // made when it is needed
	Identity func() (string, error)
}

// unsaidTime is how long it waits for a client.
const unsaidTime = 7 * 24 * time.Hour

// save writes one line for each item.
func (u *Unsaid) save(items []string, pid string) error {
	identity, err := u.Identity()
	if err != nil || len(items) == 0 {
		return err
	}
	if err := os.MkdirAll(u.Dir, 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(u.Dir, identity+"-"+pid), []byte(strings.Join(items, "\n")+"\n"), 0o600)
}

// take returns what was saved, and removes it.
func (u *Unsaid) take() (items []string) {
	entries, _ := os.ReadDir(u.Dir) // an error: nothing was saved
	if len(entries) == 0 {
		return nil
	}
	identity, err := u.Identity()
	if err != nil {
		return nil
	}
	for _, e := range entries {
		path := filepath.Join(u.Dir, e.Name())
		if strings.HasPrefix(e.Name(), identity+"-") {
			text, err := os.ReadFile(path)
			if os.Remove(path) == nil && err == nil { // else another engine has taken it
				items = append(items, strings.Split(strings.TrimSpace(string(text)), "\n")...)
			}
		} else if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > unsaidTime {
			os.Remove(path)
		}
	}
	return items
}
