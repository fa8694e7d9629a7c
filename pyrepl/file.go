package pyrepl

import (
	"strings"
	"unicode"

	"asyncrepl/jobs"
	"asyncrepl/pyrepl/worker"
)

// A File is a script or a notebook, and what it finds in sys.argv[1:].
type File struct {
	Path string // a relative one starts in the session's directory
	Args []string
}

// String returns the path and the arguments as words of a shell, which Python's shlex reads.
func (f File) String() string {
	words := append([]string{f.Path}, f.Args...)
	for i, word := range words {
		if word == "" || strings.ContainsFunc(word, func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune(`"'\;`, r) }) {
			words[i] = `"` + quoted.Replace(word) + `"`
		}
	}
	return strings.Join(words, " ")
}

var quoted = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// ExecFile returns the runner of a file, which waits for its turn in the session.
func (s *Session) ExecFile(f File) jobs.Runner {
	return &exec{s: s, work: worker.Work{Path: f.Path, Args: f.Args}}
}
