// Package version says which version of async-repl a program is.
package version

import (
	"debug/buildinfo"
	"strings"
)

// Release is the version of this code. After a release it is the next version with .dev0. A wheel
// carries it, so it is a version of Python packages: https://peps.python.org/pep-0440/
const Release = "0.1.0.dev0"

// Of returns the module version that Go stamped into the program if that is a tag, or else Release
// plus the commit (0.1.0.dev0+g0123456789ab). It ends with "modified" if the files differed from the
// commit.
func Of(info *buildinfo.BuildInfo) string {
	stamp, modified := strings.CutSuffix(info.Main.Version, "+dirty")
	number, commit := Release, commitOf(stamp)
	if v, ok := strings.CutPrefix(stamp, "v"); ok && !strings.Contains(v, "-") {
		number = v
	}
	var local []string
	if commit != "" {
		local = append(local, "g"+commit)
	}
	if modified {
		local = append(local, "modified")
	}
	if len(local) > 0 {
		number += "+" + strings.Join(local, ".")
	}
	return number
}

// commitOf returns the 12 digits of the commit at the end of a pseudo-version of the Go toolchain,
// such as v0.0.0-20261122032441-0123456789ab, or "" if the stamp is no pseudo-version
// (https://go.dev/ref/mod#pseudo-versions).
func commitOf(stamp string) string {
	const time, commit = len("20261122032441"), len("0123456789ab")
	at := len(stamp) - commit
	if from := at - 1 - time; from < 1 || stamp[at-1] != '-' || strings.Trim(stamp[from:at-1], "0123456789") != "" ||
		strings.Trim(stamp[at:], "0123456789abcdef") != "" {
		return ""
	}
	return stamp[at:]
}
