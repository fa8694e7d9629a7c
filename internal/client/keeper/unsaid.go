//go:build unix

package keeper

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"asyncrepl/internal/text/view"
	"asyncrepl/jobs"
)

// What no reply has said of jobs and variables when an engine ends without a client's goodbye is kept for the
// next reply in the workspace, by an engine of the same identity. Each engine writes a file of its own.

// unsaidTime is how long it waits for a client.
const unsaidTime = 7 * 24 * time.Hour

// variables says what variables there are.
func (k *Keeper) variables() (items []string) {
	sessions, _ := k.Engine.Sessions()
	for _, s := range sessions {
		if s.Variables > 0 {
			items = append(items, fmt.Sprintf("session %s ended with %s", s.Name, view.CountOf(s.Variables, "variable")))
		}
	}
	return items
}

// Finish keeps what no reply has said of jobs and variables. The engine has ended.
func (k *Keeper) Finish() {
	s := &k.state
	if k.Unsaid == "" || s.how == jobs.Shutdown && !s.trimmed {
		return // the client was there, and said that it wants no more replies
	}
	items := append(s.notices.Next().Call().Also(), s.lost...)
	if len(items) == 0 {
		return
	}
	self, err := k.Around.Self()
	if err == nil {
		err = os.MkdirAll(k.Unsaid, 0o700)
	}
	if err == nil {
		path := filepath.Join(k.Unsaid, self.String())
		err = os.WriteFile(path, []byte(strings.Join(items, "\n")+"\n"), 0o600)
	}
	if err != nil {
		k.Log.Warn("keeping the ends of jobs for the next client", "error", err)
	}
}

// takeUnsaid returns what earlier engines have kept, and removes it.
func (k *Keeper) takeUnsaid() (items []string) {
	entries, _ := os.ReadDir(k.Unsaid) // an error: nothing was kept
	if len(entries) == 0 {
		return nil
	}
	self, err := k.Around.Self()
	if err != nil {
		return nil
	}
	for _, e := range entries {
		path := filepath.Join(k.Unsaid, e.Name())
		if strings.HasPrefix(e.Name(), self.Identity+"-") {
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
