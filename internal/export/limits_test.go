package export

import "os"

// SaveWithin is Save of a notebook that takes so many bytes of outputs and of displays.
func (s *Source) SaveWithin(root *os.Root, workspace, path string, outputs, displays int) (Saved, error) {
	return s.save(root, workspace, path, true, room{outputs, displays})
}
