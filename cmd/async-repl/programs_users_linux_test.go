package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// missing returns what the rows need and is not installed.
func (s *started) missing() []string {
	var names []string
	for _, p := range programs {
		names = append(names, strings.Fields(p.needs)...)
	}
	slices.Sort(names)
	var line strings.Builder
	for _, name := range slices.Compact(names) {
		check := cmp.Or(programChecks[name], "command -v "+name)
		fmt.Fprintf(&line, "%s >/dev/null 2>&1 || echo missing %s\n", check, name)
	}
	r := s.do("execute_command_async", "command", line.String(), "wait_seconds", patience.Seconds()-10)
	holds(s.t.(*testing.T), r, "Status", "completed")
	var missing []string
	for line := range strings.Lines(string(r)) {
		if name, ok := strings.CutPrefix(line, "missing "); ok {
			missing = append(missing, strings.TrimSpace(name))
		}
	}
	return missing
}

// startServerOf starts a server of a user. Its workspace has the files of the rows, and a directory
// for each row.
func startServerOf(t *testing.T, by user) *started {
	t.Helper()
	s := prepare(t, "REPL_PYTHON="+interpreter())
	paths := []string{s.dir}
	for name, text := range programFiles {
		path := filepath.Join(s.dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	for i := range programs {
		path := filepath.Join(s.dir, fmt.Sprint("row", i))
		if err := os.Mkdir(path, 0o755); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	// A sandbox hides the home except its toolchains, which the interpreters of programs can need.
	if !s.confined || by == ordinary {
		s.cmd.Env = append(s.cmd.Env, "HOME="+filepath.Dir(s.setting("REPL_STATE_DIR")))
	}
	s.cmd.Env = append(s.cmd.Env, programEnv...)
	if by == ordinary && os.Geteuid() == 0 {
		s.becomeOrdinary(t, paths)
	}
	s.open()
	return s
}
