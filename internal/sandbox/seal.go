package sandbox

// A Seal is what must be at a path inside.
type Seal struct {
	Path     string
	Device   uint64
	Inode    uint64 // 0: a directory in memory, which hides another
	ReadOnly bool   `json:",omitempty"` // jobs must not be able to write it
	Hides    bool   `json:",omitempty"` // the path hides a file: jobs must not be able to read it, and it can be missing
}
