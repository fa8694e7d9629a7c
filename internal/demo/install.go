//go:build unix

package demo

import (
	"fmt"

	"asyncrepl/internal/wheel"
)

// installWheel returns the run of a step that builds a package, installs it into the running
// session by one call with one argument, and imports it. It needs no network.
func installWheel(name, tool, argument, text, status string) func(*session) error {
	return func(s *session) error {
		source := "def to(name):\n    return f'A " + name + " to {name}, from a wheel'\n"
		if _, err := wheel.OfModule(name, "1.0", source).Save(s.dir); err != nil {
			return fmt.Errorf("building a wheel: %w", err)
		}
		r, err := s.call(tool, map[string]any{argument: text, "wait_seconds": 60})
		if err != nil {
			return err
		}
		if err := r.Expect(status); err != nil {
			return err
		}
		if r, err = s.call("execute_python", map[string]any{"code": "import " + name + "; " + name + ".to(name)"}); err != nil {
			return err
		}
		return r.Expect("completed", "A "+name+" to Jonathan, from a wheel")
	}
}
