package keeper

import "errors"

// Available returns why an engine can't be a process of its own here, or nil.
func Available() error { return errors.New("on macOS the server is one process") }
