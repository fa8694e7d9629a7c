package worker

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// searchMax bounds how many entries of the workspace are searched for a module. Reading so many
// takes a few milliseconds.
const searchMax = 5000

// HasModule reports whether it finds a Python module in dir or below, among the first searchMax
// entries. It skips hidden directories, environments and installed packages.
func HasModule(dir, module string) bool {
	seen := 0
	for dirs := []string{dir}; len(dirs) > 0 && seen < searchMax; dirs = dirs[1:] {
		names, below := list(dirs[0])
		seen += len(names)
		if slices.Contains(names, "pyvenv.cfg") { // an environment
			continue
		}
		inside := dirs[0] != dir && filepath.Base(dirs[0]) == module
		for _, name := range names {
			stem, suffix, _ := strings.Cut(name, ".")
			if suffix == "py" && (inside || stem == module) || stem == module && strings.HasSuffix(suffix, "so") {
				return true
			}
		}
		dirs = append(dirs, below...)
	}
	return false
}

// list returns the names in a directory, and the paths of its subdirectories that must be searched.
func list(dir string) (names, below []string) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, nil // nothing can be imported from there either
	}
	defer f.Close()
	entries, _ := f.ReadDir(searchMax) // after an error the entries before it will do
	for _, e := range entries {
		name := e.Name()
		names = append(names, name)
		if e.IsDir() && name[0] != '.' && name != "node_modules" && name != "site-packages" && name != "__pycache__" {
			below = append(below, filepath.Join(dir, name))
		}
	}
	return names, below
}
