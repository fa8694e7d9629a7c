package shell

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Script returns the argument vector by which the shell at path runs a command line. The shell
// reads neither login nor rc files. If bash finds itself under sshd, it reads ~/.bashrc even for
// -c, unless it gets --norc, an option that other shells do not know
// (https://www.gnu.org/software/bash/manual/html_node/Bash-Startup-Files.html).
func Script(path, line string) []string {
	if isBash(path) {
		return []string{path, "--norc", "-c", line}
	}
	return []string{path, "-c", line}
}

// isBash reports whether the program at path is bash by name, links resolved: bash, bash5,
// bash-static.
func isBash(path string) bool {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	return strings.HasPrefix(filepath.Base(path), "bash")
}

// scriptOf returns the shell and the command line of argv, if it is one that Script returns.
func scriptOf(argv []string) (path, line string, ok bool) {
	switch {
	case len(argv) == 3 && argv[1] == "-c", len(argv) == 4 && argv[1] == "--norc" && argv[2] == "-c":
		return argv[0], argv[len(argv)-1], true
	}
	return "", "", false
}

// maxLine is the longest command line that is passed as an argument, in bytes. Linux takes 128 KiB,
// with the byte that ends it (https://man7.org/linux/man-pages/man2/execve.2.html).
const maxLine = 128<<10 - 1

// splitLongLine takes a command line that is too long for an argument out of argv. The shell reads
// such a line from the descriptor fd, which the line itself closes first.
func splitLongLine(argv []string, fd int) (short []string, line string) {
	path, line, ok := scriptOf(argv)
	if !ok || len(line) <= maxLine {
		return argv, ""
	}
	return Script(path, fmt.Sprintf(". /dev/fd/%d", fd)), fmt.Sprintf("exec %d<&-; %s", fd, line)
}

// textFile returns an unnamed file that holds text.
func textFile(text string) (*os.File, error) {
	f, err := unnamedFile()
	if err != nil {
		return nil, err
	}
	if _, err := f.WriteString(text); err != nil {
		f.Close()
		return nil, err
	}
	f.Seek(0, 0) // Darwin's /dev/fd gives the same open file
	return f, nil
}
