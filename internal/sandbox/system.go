//go:build linux

package sandbox

import (
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// addSystem adds what programs need of the system: its files to read, and devices, processes and
// directories of its own.
func (b *Box) addSystem(network, root bool) {
	tops, _ := filepath.Glob("/lib*") // the pattern is not malformed
	for _, top := range append(tops, "/usr", "/bin", "/sbin", "/opt", "/nix", "/sys", "/home/linuxbrew/.linuxbrew") {
		b.addShared(top)
	}
	b.addShared("/etc")
	if root { // the owner of most files of the system needs no privileges to read them
		b.hideSecrets("/etc")
		for _, path := range []string{"/sys/kernel/debug", "/sys/kernel/tracing"} { // what other processes do
			if exists(path) {
				b.mounts[path] = mount{}
			}
		}
	}
	b.mounts["/dev"] = mount{option: "--dev"} // it has a /dev/shm of its own
	b.mounts["/run"] = mount{}
	if system, err := os.Readlink("/run/current-system"); err == nil { // NixOS has its programs there
		b.mounts["/run/current-system"] = mount{link, system}
	}
	if resolver := resolved("/etc/resolv.conf"); network && under(resolver, "/run") {
		b.mounts[resolver] = mount{readOnly, resolver}
	}

	b.mounts["/proc"] = mount{option: "--proc"}
	if root {
		b.protectProc()
	}
	if path := "/proc/keys"; exists(path) { // keyrings belong to no namespace
		b.mounts[path] = mount{readOnly, nothing}
	}
}

// protectProc makes read-only what root owns in /proc and changes the machine by, which takes no
// privileges. Processes are not part of it: programs write their own settings.
func (b *Box) protectProc() {
	entries, _ := os.ReadDir("/proc") // without any, bubblewrap fails
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err == nil {
			continue
		}
		switch e.Name() {
		case "driver", "pressure", "sysvipc", "tty": // they hold nothing of that kind
			continue
		}
		if info, err := e.Info(); err == nil && (e.IsDir() || e.Type().IsRegular() && info.Mode()&0o222 != 0) {
			path := filepath.Join("/proc", e.Name())
			b.mounts[path] = mount{readOnly, path}
		}
	}
}

// addShared adds a directory to read, or a link in its place, if there is one.
func (b *Box) addShared(path string) {
	info, err := os.Lstat(path)
	if err != nil {
		return
	}
	if info.Mode()&fs.ModeSymlink == 0 {
		b.mounts[path] = mount{readOnly, path}
	} else if target, err := os.Readlink(path); err == nil {
		b.mounts[path] = mount{link, target}
	}
}

// hideSecrets hides what is below a directory and not readable by every user. Bubblewrap takes a fifth of
// a millisecond for each mount, so the directory is not rebuilt from mounts of all else, although the
// kernel drops a mount over a file when a program outside replaces the file by rename, as passwd does.
func (b *Box) hideSecrets(dir string) {
	filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if d == nil || d.Type()&fs.ModeSymlink != 0 {
			return nil
		}
		info, infoErr := d.Info()
		switch {
		case infoErr == nil && err == nil && info.Mode()&0o004 != 0:
			return nil
		case d.IsDir():
			b.mounts[path] = mount{}
			return fs.SkipDir
		case d.Type().IsRegular():
			b.mounts[path] = mount{readOnly, nothing}
		}
		return nil
	})
}

// nothing can't be opened inside, because devices can't in a directory that is mounted.
const nothing = "/dev/null"

// tools are the directories of a home in which people install programs, and the settings of git. Of some
// only parts are here, because they keep passwords beside them: git in .config/git/credentials, uv in
// .local/share/uv/credentials. A directory does not count because the PATH names it: programs of a
// person's own, as in bin, have passwords in them.
//
// The programs of .local/bin are often links to the share or lib beside it, and scripts that import modules
// of it: npm, pip and pipx put them there.
var tools = []string{
	".local/bin", ".local/lib", ".local/pipx", ".local/share/fnm", ".local/share/mise", ".local/share/pipx", ".local/share/pnpm",
	".local/share/uv/python", ".local/share/uv/tools",
	".asdf", ".tool-versions", ".bun", ".cargo/bin", ".deno", ".nix-profile", ".nodenv", ".npm-global", ".nvm", ".pyenv", ".rbenv", ".rustup", ".volta",
	"go/bin", "go/pkg",
	"miniconda3", "anaconda3", "miniforge3", "mambaforge", "micromamba", ".conda/envs", ".conda/pkgs",
	".gitconfig", ".config/git/config", ".config/git/ignore", ".config/git/attributes",
}
