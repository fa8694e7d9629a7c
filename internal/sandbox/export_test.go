//go:build linux

package sandbox

// HideSecrets hides what is not for every user below a directory, as New does for root below /etc.
func (b *Box) HideSecrets(dir string) error {
	b.addShared(dir)
	b.hideSecrets(dir)
	b.Seals = nil
	return b.seal()
}
