package jobs

import "os"

// A namelessFile is a [spillFile] on a real disk.
type namelessFile struct{ *os.File }

// openSpill makes a file in the directory that dir returns, and takes its name
// away at once.
func openSpill(dir func() (string, error)) (spillFile, error) {
	path, err := dir()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, err
	}
	f, err := os.CreateTemp(path, "output-")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		f.Close()
		return nil, err
	}
	return namelessFile{f}, nil
}
