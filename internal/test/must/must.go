// Package must makes the steps of a test that are no part of its question: a file, a pipe, a started
// program. If such a step fails, the test ends with its error. A step whose error is the question of
// a test is checked there.
package must

import "testing"

// Do fails the test if a step has returned an error.
func Do(t testing.TB, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}

// Get returns a function that returns the value v of a step, and fails the test if err is not nil:
//
//	text := must.Get(os.ReadFile(path))(t)
func Get[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
		return v
	}
}

// Get2 is Get for a step with two values, such as os.Pipe.
func Get2[A, B any](a A, b B, err error) func(testing.TB) (A, B) {
	return func(t testing.TB) (A, B) {
		if err != nil {
			t.Helper()
			t.Fatal(err)
		}
		return a, b
	}
}
