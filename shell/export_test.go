package shell

import "asyncrepl/internal/terminal/tty"

// SetPace sets the pace of the keys that are sent to the command.
func (c *Command) SetPace(p tty.Pace) { c.pace = p }

// Lingers reports whether the shell of a command line stays for a moment at its end.
func Lingers(line string) bool { return lingers(line) }
