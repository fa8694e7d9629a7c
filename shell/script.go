package shell

import (
	"fmt"
	"os"
)

// Script returns the argument vector by which the shell at path runs a command line. The shell
// reads neither login nor rc files.
func Script(path, line string) []string { return []string{path, "-c", line} }

// maxLine is the longest command line that is passed as an argument, in bytes. Linux takes 128 KiB,
// with the byte that ends it.
const maxLine = 128<<10 - 1

// splitLongLine takes a command line that is too long for an argument out of argv. The shell reads
// such a line from descriptor 3, which the line itself closes first.
func splitLongLine(argv []string) (short []string, line string) {
	if len(argv) != 3 || argv[1] != "-c" || len(argv[2]) <= maxLine {
		return argv, ""
	}
	return Script(argv[0], ". /dev/fd/3"), "exec 3<&-; " + argv[2]
}

// textFile returns an unnamed file that holds text.
func textFile(text string) (*os.File, error) {
	f, err := unnamedFile()
	if err != nil {
		return nil, fmt.Errorf("keeping a long command line: %w", err)
	}
	if _, err := f.WriteString(text); err != nil {
		f.Close()
		return nil, fmt.Errorf("keeping a long command line: %w", err)
	}
	f.Seek(0, 0) // Darwin's /dev/fd gives the same open file
	return f, nil
}
