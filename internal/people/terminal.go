//go:build unix

package people

import (
	"os"

	"asyncrepl/internal/terminal/tty"
)

// toTerminal reports whether standard output is a terminal.
func (c *Config) toTerminal() bool {
	f, ok := c.Out.(*os.File)
	return ok && tty.IsTerminal(f)
}
