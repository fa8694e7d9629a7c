package pkgmgr

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// The programs pip and pip3 lead the PATH of jobs. They are scripts in a directory that only the
// user of the server can open, in the directory of the server's run. The server removes it when it
// exits. If the server is killed, it is removed with what else the run has left.

// programs is the state of the directory with the programs.
type programs struct {
	// Guarded by mu.
	mu   sync.Mutex
	dir  string // chosen once, because running sessions have it in their PATH
	made bool
	err  error // the error of the last call of Programs, which ProgramsError returns
}

// programsPrefix begins the name of the directory.
const programsPrefix = "pip-"

// Programs returns the directory with the programs pip and pip3, and makes it if it does not exist.
func (m *Manager) Programs() (string, error) {
	p := &m.programs
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.made || !isProgram(filepath.Join(p.dir, "pip")) {
		p.err = m.makePrograms()
	} else {
		p.err = checkOwn(p.dir)
	}
	if p.err != nil {
		p.remove()
		return "", fmt.Errorf("making the program pip of jobs: %w", p.err)
	}
	return p.dir, nil
}

// ProgramsError returns the error of the last call of Programs.
func (m *Manager) ProgramsError() error {
	m.programs.mu.Lock()
	defer m.programs.mu.Unlock()
	return m.programs.err
}

// Close removes the directories that Programs has made, here and in the other environments.
func (m *Manager) Close() {
	m.othersMu.Lock()
	others := m.others
	m.othersMu.Unlock()
	for _, o := range others {
		o.Close()
	}
	m.programs.mu.Lock()
	defer m.programs.mu.Unlock()
	m.programs.remove()
}

// remove removes the directory. The caller holds mu.
func (p *programs) remove() {
	if p.made {
		os.RemoveAll(p.dir)
		p.made = false
	}
}

// makePrograms makes the directory and its files. The caller holds mu.
func (m *Manager) makePrograms() error {
	p := &m.programs
	p.remove() // parts of it can be left
	if len(m.cfg.Pip) == 0 {
		return errors.New("this server has none")
	}
	state, err := m.cfg.StateDir()
	if err != nil {
		return err
	}
	if strings.Contains(state, string(os.PathListSeparator)) {
		return fmt.Errorf("%s can't be part of a PATH", state)
	}
	if filepath.Dir(p.dir) != state { // there is none yet, or the state directory was removed and made again
		p.dir = filepath.Join(state, programsPrefix+rand.Text())
	}
	if err := os.Mkdir(p.dir, 0o700); err != nil {
		return err
	}
	p.made = true
	if err := m.writePrograms(p.dir); err != nil {
		return err
	}
	return checkOwn(p.dir)
}

// writePrograms writes the programs and the settings that they read.
func (m *Manager) writePrograms(dir string) error {
	settings, err := json.Marshal(m.cfg)
	if err != nil {
		return err
	}
	file := filepath.Join(dir, "settings.json")
	if err := os.WriteFile(file, settings, 0o600); err != nil {
		return err
	}
	script := "#!/bin/sh\nexec"
	for _, word := range append(m.cfg.Pip, file) {
		script += " '" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	for _, name := range []string{"pip", "pip3"} {
		path := filepath.Join(dir, name)
		// The lock keeps this process from forking meanwhile: a child would hold the file open for
		// writing, and no process could execute it (golang/go#22315).
		syscall.ForkLock.RLock()
		err := os.WriteFile(path, []byte(script+" \"$@\"\n"), 0o700)
		syscall.ForkLock.RUnlock()
		if err != nil {
			return err
		}
		if err := unix.Access(path, unix.X_OK); err != nil {
			return fmt.Errorf("%s can't be run (%w)", path, err) // on a file system mounted noexec
		}
	}
	return nil
}

// checkOwn returns an error unless dir is a directory of this user that no other user can open.
func checkOwn(dir string) error {
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR || st.Mode&0o777 != 0o700 || int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("%s is open to other users", dir)
	}
	return nil
}
