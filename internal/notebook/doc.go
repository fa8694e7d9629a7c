// Package notebook writes what a session ran as a file: a Jupyter notebook (.ipynb, nbformat 4.5)
// or Python code in cells (.py). A line "# %%" begins a cell, as in VS Code:
// https://code.visualstudio.com/docs/python/jupyter-support-py
//
// Begin with [Notebook], a list of cells. ipynb.go and script.go write the two formats.
//
// The package knows nothing of jobs and sessions.
package notebook
