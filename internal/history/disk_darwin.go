package history

import "os"

// allocate does nothing: this system allocates no space beyond the end of a file.
func allocate(*os.File, int64, int64) error { return nil }
