package shell

// Script returns the argv by which the shell at path runs a command line:
// neither login nor rc files are read.
func Script(path, line string) []string { return []string{path, "-c", line} }

// maxLine is the longest command line that is handed over as an argument. Linux
// takes 128 KiB, with the byte that ends it.
const maxLine = 128<<10 - 1

// aside parts argv from a command line that is too long for an argument: the
// shell reads that from its descriptor 3, which it closes before it does
// anything else.
func aside(argv []string) (short []string, line string) {
	if len(argv) != 3 || argv[1] != "-c" || len(argv[2]) <= maxLine {
		return argv, ""
	}
	return Script(argv[0], ". /dev/fd/3"), "exec 3<&-; " + argv[2]
}
