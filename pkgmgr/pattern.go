package pkgmgr

import (
	"regexp"
	"sync"
)

// pattern is an expression that is compiled when it is first looked for. Each
// start of the server, and of its guard, would pay for all of them otherwise,
// and few ever install a package that fails to build.
func pattern(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
