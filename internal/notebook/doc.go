// Package notebook writes what a session ran as a file: a Jupyter notebook (.ipynb, nbformat 4.5)
// or Python code in cells (.py, with the "# %%" lines that editors know).
//
// A [Notebook] is a list of cells; [Save] writes it. Save replaces an existing file only if its
// caller says so.
//
// Begin with [Notebook]. ipynb.go and script.go are the two formats, save.go the rules for files.
//
// The package knows nothing of jobs and sessions.
package notebook
