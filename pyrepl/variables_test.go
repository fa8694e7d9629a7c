package pyrepl_test

import (
	"reflect"
	"testing"

	"asyncrepl/internal/test/needtest"
	"asyncrepl/jobs"
)

func TestReceiptNamesNewAndGoneVariables(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, step := range []struct {
		code string
		want jobs.NameChange
	}{
		{"a = b = 1; _hidden = 2", jobs.NameChange{New: []string{"a", "b"}, NewCount: 2, Gone: []string{}}},
		{"a = 2", jobs.NameChange{}},
		{"del a; c = 1; 1 / 0", jobs.NameChange{New: []string{"c"}, NewCount: 1, Gone: []string{"a"}, GoneCount: 1}},
		{"import os; os._exit(1)", jobs.NameChange{}},
		{"c = 1", jobs.NameChange{New: []string{"c"}, NewCount: 1, Gone: []string{}}}, // in a new worker
	} {
		record, _ := b.run(step.code)
		if got := record.Receipt.Names; !reflect.DeepEqual(got, step.want) {
			t.Errorf("%q: %+v, want %+v", step.code, got, step.want)
		}
	}
}

// The shapes of arrays and frames are known, whatever the version of their library. It needs an
// interpreter that has one of them, which PYREPL_TEST_PYTHON names. .ci/run makes one without torch and jax, which are
// too large for it.
func TestVariablesOfLibraries(t *testing.T) {
	t.Parallel()
	libraries := map[string]struct {
		code   string
		shapes map[string][]int64
	}{
		"numpy": {"import numpy as np; a = np.zeros((3, 4)); b = np.array(1.5); s = np.float64(1); m = np.ma.array([1])",
			map[string][]int64{"a": {3, 4}, "b": {}, "s": nil, "m": nil}},
		"pandas": {`import pandas as pd
a = pd.DataFrame({"x": range(5), "y": list("abcde")}); b = a.x; c = a.set_index(["x", "y"]); d = a.groupby("x")
e = pd.Series(range(3), index=pd.date_range("2020", periods=3)); f = pd.DataFrame(); g = a.set_index("y").T
class Mine(pd.DataFrame): shape = property(lambda self: print("user code ran"))
h = Mine({"x": [1]})`, map[string][]int64{"a": {5, 2}, "b": {5}, "c": {5, 0}, "d": nil, "e": {3}, "f": {0, 0}, "g": {1, 5}, "h": nil}},
		"polars": {`import polars as pl
a = pl.DataFrame({"x": range(5), "y": list("abcde")}); b = a["x"]; c = a.lazy(); f = pl.DataFrame()
class Mine(pl.DataFrame): shape = property(lambda self: print("user code ran"))
h = Mine({"x": [1]})`, map[string][]int64{"a": {5, 2}, "b": {5}, "c": nil, "f": {0, 0}, "h": nil}},
		"pyarrow": {`import pyarrow as pa
a = pa.table({"x": range(5), "y": list("abcde")}); b = a.to_batches()[0]; c = a["x"]; f = pa.table({})`,
			map[string][]int64{"a": {5, 2}, "b": {5, 2}, "c": nil, "f": {0, 0}}},
		"torch": {"import torch; a = torch.zeros((3, 4))", map[string][]int64{"a": {3, 4}}},
		"jax":   {"import jax; a = jax.numpy.zeros((3, 4))", map[string][]int64{"a": {3, 4}}},
	}
	for library, test := range libraries {
		t.Run(library, func(t *testing.T) {
			python := realPython(t)
			needtest.Module(t, python, library)
			t.Parallel()
			b := newBenchOn(t, python, t.TempDir())
			b.want(test.code, "completed")
			v, err := b.s.Variables(t.Context(), "")
			if err != nil {
				t.Fatal(err)
			}
			got := map[string][]int64{}
			for _, one := range v.Vars {
				got[one.Name] = one.Shape
				if one.Len != nil {
					t.Errorf("%s has a length, %d", one.Name, *one.Len)
				}
			}
			if !reflect.DeepEqual(got, test.shapes) {
				t.Errorf("shapes %v, want %v", got, test.shapes)
			}
		})
	}
}
