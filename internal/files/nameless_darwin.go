package files

import (
	"errors"
	"io/fs"
	"os"
)

// nameless returns an error: this system has no files without a name.
func nameless(*os.Root, string, fs.FileMode) (*os.File, error) { return nil, errors.ErrUnsupported }

// giveName returns an error: there is nothing to give a name to.
func giveName(*os.Root, *os.File, string, string) error { return errors.ErrUnsupported }
