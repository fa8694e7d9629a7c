package must_test

import (
	"errors"
	"os"
	"strconv"
	"testing"

	"asyncrepl/internal/test/must"
)

// This is the package's example. It is a test, because the functions take a testing.TB.
func TestExample(t *testing.T) {
	path := t.TempDir() + "/file"
	must.Do(t, os.WriteFile(path, []byte("7"), 0o600))
	if got := must.Get(os.ReadFile(path))(t); string(got) != "7" {
		t.Errorf("got %q", got)
	}
}

// A failing records how a test would have failed.
type failing struct {
	testing.TB
	said []any
}

func (f *failing) Helper()           {}
func (f *failing) Fatal(args ...any) { f.said = append(f.said, args...) }

// An error fails the test in its own words.
func TestErrorsFailTheTest(t *testing.T) {
	f := &failing{TB: t}
	must.Do(f, os.ErrExist)
	must.Get(strconv.Atoi("seven"))(f)
	must.Get2(0, 0, os.ErrClosed)(f)
	if len(f.said) != 3 || f.said[0] != os.ErrExist || !errors.Is(f.said[1].(error), strconv.ErrSyntax) || f.said[2] != os.ErrClosed {
		t.Errorf("said %v", f.said)
	}
}
