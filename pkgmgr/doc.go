// Package pkgmgr finds the Python of a workspace, makes a virtual environment if there is none, and
// installs packages into it.
//
// Which environment: the first of
//
//   - the named interpreter (Config.Python), used as it is,
//   - the named directory (Config.VenvDir), made if it does not exist,
//   - the active virtual or conda environment (Config.VirtualEnv, CondaPrefix), if it exists,
//   - <workspace>/.venv, made if it does not exist.
//
// The environment is made when a Python is first asked for and never before: by uv if there is one,
// else by venv. pip is not installed into it: "python -m venv" takes 5.5 s with pip and 0.08 s
// without (measured with Python 3.11). A small package pip runs one from outside. The interpreter or
// the directory that the user named is never skipped: if it can't be used, that is an error. Nothing
// is removed, except a directory that this package made and could not fill.
//
// A session can choose another environment (Manager.Other): an interpreter as it is, by path or
// version (uv finds it, else it is searched on the PATH), or the directory of an environment, made
// if it is in the workspace. Each environment has one Manager, which all sessions that chose it
// share, with its locks and its programs.
//
// Clients that bring different variables have a Manager each, because its commands run with these
// variables and search their PATH. If two of them find the same environment, the locks on its
// directories keep their installs apart, as they do between servers.
//
// Which installer: the environment's own uv, else the uv on the PATH, else the environment's pip,
// else a pip from outside: the pip of the Python which the environment was made from, or the copy
// that this Python carries (https://docs.python.org/3/library/ensurepip.html).
//
// The programs pip and pip3 of jobs (Programs) are processes of their own. They find or make the
// environment as a Manager of another server would, under the same locks, and execute its pip
// (RunPip).
//
// What is installed: package installer cuts a text into arguments of the installer, which parses
// them, and reads from its output why it failed. No text reaches a shell. Installs into an
// environment run one at a time, also if several servers install into it, because pip takes no lock
// (https://github.com/pypa/pip/issues/2361). The packages that were installed are read from the
// environment's directories, also after an install that failed or was stopped.
//
// Errors: Interpreter, Describe, Install and RunPip return errors for the user: one line that says
// how to fix the problem and names the settings by the names in Config. The failure of an install
// is in its job's receipt.
//
// Ownership: a Manager owns the choice of the environment and the short commands that find and make
// it. The installer belongs to the runner that Config.Command returns. The package starts no
// goroutine, knows nothing of protocols, sessions or terminals, and reads neither environment
// variables nor the working directory: they are in Config and in the arguments of RunPip.
//
// Begin with the example, then manager.go (the Manager), find.go (which Python), other.go (the
// environments of sessions), versions.go (a Python by its version), make.go (a new environment),
// install.go (one install), site.go (what it changed), pip.go (environments without pip),
// programs.go and program.go (the program pip of jobs: its directory, and its process).
package pkgmgr
