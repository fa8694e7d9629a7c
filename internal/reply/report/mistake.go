package report

import "fmt"

// A Mistake is an error in the arguments of a call. Its text says how to correct it.
type Mistake struct{ Text string }

// Error returns the text of the mistake.
func (m *Mistake) Error() string { return m.Text }

// Mistakef returns a Mistake.
func Mistakef(format string, a ...any) error { return &Mistake{fmt.Sprintf(format, a...)} }
