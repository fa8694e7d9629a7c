package pkgmgr_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"asyncrepl/internal/process"
	"asyncrepl/pkgmgr"
)

// An environment is made when the Python of a workspace is first asked for, and not before.
func Example() {
	owner, err := process.NewOwner(process.Config{}) // a server names its guard here
	if err != nil {
		fmt.Println(err)
		return
	}
	defer owner.Shutdown()
	workspace, err := os.MkdirTemp("", "workspace-")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(workspace)
	manager := pkgmgr.New(pkgmgr.Config{
		Workspace: workspace,
		Path:      filepath.SplitList(os.Getenv("PATH")),
		Env:       os.Environ(),
		Owner:     owner,
	})
	made, _ := filepath.Glob(filepath.Join(workspace, ".venv"))
	fmt.Println("before:", len(made))

	python, err := manager.Interpreter(context.Background())
	if err != nil {
		fmt.Println(err) // it names the remedy
		return
	}
	dir, err := filepath.Rel(workspace, filepath.Dir(python))
	fmt.Println(dir, err)
	fmt.Println(filepath.Dir(python) == manager.Bin())

	named := pkgmgr.New(pkgmgr.Config{Workspace: workspace, Python: pkgmgr.Setting{Name: "REPL_PYTHON", Value: "/no/such/python"}, Env: os.Environ(), Owner: owner})
	_, err = named.Interpreter(context.Background())
	fmt.Println("refused:", err != nil) // a named interpreter is never skipped

	_, err = manager.Install("--index-url=http://example.com numpy")
	fmt.Println("an option is refused:", err != nil)
	// Output:
	// before: 0
	// .venv/bin <nil>
	// true
	// refused: true
	// an option is refused: true
}
