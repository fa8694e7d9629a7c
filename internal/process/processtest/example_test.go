package processtest_test

import (
	"os"
	"testing"

	"asyncrepl/internal/process"
	"asyncrepl/internal/process/ladder"
	"asyncrepl/internal/process/processtest"
)

// The test binary plays the guard too, so every package that uses Owner has this.
func TestMain(m *testing.M) { os.Exit(processtest.Main(m)) }

// This is the package's example. It is a test, because only tests have the testing.TB that Owner
// takes. What the owner starts ends with the test, or by the guard if the test binary is killed.
func TestExample(t *testing.T) {
	owner := processtest.Owner(t)
	handle, err := owner.Start(process.Spec{
		Argv:  []string{"sleep", "1000"},
		Env:   []string{"PATH=" + os.Getenv("PATH")},
		Dir:   t.TempDir(),
		Files: make([]*os.File, 3), // all of them /dev/null
	})
	if err != nil {
		t.Fatal(err)
	}
	if r := handle.Stop(process.Ladder{From: ladder.Kill}); len(r.Survivors) > 0 || r.Err != nil {
		t.Errorf("survivors: %v, error %v", r.Survivors, r.Err)
	}
	processtest.Gone(t, handle.PID())
}
