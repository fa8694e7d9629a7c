package export

import "asyncrepl/internal/files"

// SaveWithin is Save of a notebook that takes so many bytes of outputs and of displays.
func (s *Source) SaveWithin(workspace *files.Dir, path string, outputs, displays int) (Saved, error) {
	return s.save(workspace, path, true, room{outputs, displays})
}
