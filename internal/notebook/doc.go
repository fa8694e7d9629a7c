// Package notebook words what a session ran as a file: a Jupyter notebook (.ipynb, nbformat 4.5)
// or Python code in cells (.py, with the "# %%" lines that editors know).
//
// Begin with [Notebook], a list of cells. ipynb.go and script.go are the two formats.
//
// The package knows nothing of jobs and sessions.
package notebook
