// Package pattern compiles expressions on first use. If all were compiled at the start, each start
// of the server and of its guard would pay for them.
package pattern

import (
	"regexp"
	"sync"
)

// Lazy returns a function that returns the expression, compiled at its first call. It panics there
// if the expression is not valid.
func Lazy(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
