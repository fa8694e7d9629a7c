package shell

import "os"

// unnamedFile returns an empty file whose name has been removed.
func unnamedFile() (*os.File, error) {
	f, err := os.CreateTemp("", "")
	if err == nil {
		os.Remove(f.Name())
	}
	return f, err
}
