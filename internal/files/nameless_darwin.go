package files

import (
	"errors"
	"io/fs"
	"os"
)

// nameless returns an error: macOS can't open a file without a name.
func nameless(*os.Root, string, fs.FileMode) (*os.File, error) { return nil, errors.ErrUnsupported }

// giveName returns an error: nameless never returns a file here.
func giveName(*os.Root, *os.File, string, string) error { return errors.ErrUnsupported }
