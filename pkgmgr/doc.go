// Package pkgmgr finds the Python of a workspace, makes a virtual environment
// where there is none, and installs packages into it.
//
// Rules:
//
//   - The environment is the first of: the interpreter that was named (used as
//     it is), the environment directory that was named, the active virtual or
//     conda environment, <workspace>/.venv. Where none of them is there, .venv
//     is made, without pip, when a Python is first asked for and never before.
//   - What was named and can't be used is an error with its remedy. It is never
//     passed over for something else.
//   - Nothing is removed, but for a directory that this package made in vain.
//   - What is to be installed is cut into arguments of the installer, which parses them. No text of a
//     caller reaches a shell or stands where an installer would take it for an option. Relative paths
//     start in the workspace.
//   - Installs into the environment run one at a time, those of other servers
//     included: pip takes no lock.
//   - What was installed is told by the environment's directories, also of an
//     install that failed or was stopped. Why one failed is told in a line, from
//     what the installer printed.
//
// What a caller can mend is an error that names the remedy, what
// goes wrong in an install is told by its job's receipt. Begin with the example,
// then manager.go (which Python), args.go (what may be asked for) and install.go
// (one install).
//
// A Manager owns the choice of the environment and the short commands that
// find and make it. The installer itself belongs to the runner that the caller
// hands in. No goroutine is started here. The package knows nothing of
// protocols, sessions or terminals, and reads neither environment variables nor
// the working directory: both are in its Config.
package pkgmgr
