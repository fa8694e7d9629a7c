package pkgmgr

import (
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// An environment is made without pip, because installing pip takes seconds. So that "python -m pip"
// works there, it gets a package pip of two small files, which runs a pip from outside of the
// environment. A real pip that is installed later replaces the two files. Nothing is added to an
// environment that a person has made: if it lacks pip, python -c runs the same program.

// outsidePip is the Python program that runs a pip from outside of an environment.
//
//go:embed outside_pip.py
var outsidePip string

// addPip writes the package pip into a new environment.
func addPip(dir string) error {
	libs, err := os.ReadDir(filepath.Join(dir, "lib"))
	if err != nil {
		return err
	}
	for _, lib := range libs {
		pip := filepath.Join(dir, "lib", lib.Name(), "site-packages", "pip")
		if err := os.Mkdir(pip, 0o777); err != nil {
			if errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) {
				continue // there is a pip, or lib is no library of Python
			}
			return err
		}
		for name, text := range map[string]string{"__init__.py": "# See __main__.py.\n", "__main__.py": outsidePip} {
			if err := os.WriteFile(filepath.Join(pip, name), []byte(text), 0o666); err != nil {
				return err
			}
		}
	}
	return nil
}

// pip returns the command line of the pip that installs into an environment, without arguments, or
// nil if there is no pip. Python's option -I leaves the working directory out of sys.path
// (https://docs.python.org/3/using/cmdline.html), because pip must not import modules of the
// workspace.
func (s site) pip(env environment) []string {
	switch s.Pip {
	case pipInside:
		return []string{env.python, "-I", "-m", "pip"}
	case pipOutside:
		return []string{env.python, "-I", "-c", outsidePip}
	}
	return nil
}

// noPip returns the error about an environment without pip.
func noPip(env environment) error {
	return fmt.Errorf("%s has no pip, nor has the Python that it was made from; install uv, or pip for it (Debian, Ubuntu: apt install python3-pip)", env.python)
}
