package worker

import "errors"

// limitMemory returns an error: this system limits no other process's memory.
func limitMemory(int, int64) error {
	return errors.New("limiting the memory of the Python worker: macOS can't; leave the limit out")
}
