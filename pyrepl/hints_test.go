package pyrepl_test

import (
	"testing"

	"asyncrepl/jobs"
)

// givesHints checks the cause in the receipt of a missing module, and of a line for IPython.
func (b *bench) givesHints() {
	b.t.Helper()
	for code, want := range map[string]jobs.Receipt{
		"import no_such_module":                  {Cause: jobs.NoModule, Subject: "no_such_module"},
		"x = 1\nfrom no_such.part import thing":  {Cause: jobs.NoModule, Subject: "no_such.part.thing"},
		"def f(): import no_such.part\nf()":      {Cause: jobs.NoModule, Subject: "no_such.part"},
		"import json.no_such":                    {},
		"import os.no_such":                      {},
		"import imp_, _no_such":                  {Cause: jobs.NoModule, Subject: "imp_"},
		"import _no_such":                        {},
		"import nis.x":                           {},
		"raise ModuleNotFoundError('install x')": {},
		"raise ImportError('x', name='x')":       {},
		"import sys\nsys.modules['kept_away'] = None\nimport kept_away": {},
		"import sys\nsys.modules['odd'] = 1\nimport odd.part":           {},
		"raise SyntaxError('own')":                                      {},
		"raise SyntaxError('own', ('<job>', '1', 2, 3))":                {},
		"%timeit x":                             {Cause: jobs.NoPython, Subject: "%timeit x"},
		"x = 1\n  %matplotlib inline":           {Cause: jobs.NoPython, Subject: "%matplotlib inline"},
		"%%bash\necho it's \\\n(":               {Cause: jobs.NoPython, Subject: "%%bash"},
		"import sys\n!pip install six":          {Cause: jobs.NoPython, Subject: "!pip install six"},
		"pip install six":                       {Cause: jobs.NoPython, Subject: "pip install six"},
		"x = !ls":                               {Cause: jobs.NoPython, Subject: "!ls"},
		"x = = 1":                               {},
		"!ls -la":                               {Cause: jobs.NoPython, Subject: "!ls -la"},
		"print?":                                {Cause: jobs.NoPython, Subject: "print?"},
		"x = (1\n     % 2\n     3)":             {},
		"compile('%timeit x', 'other', 'exec')": {},
		"def f(:":                               {},
	} {
		record, out := b.run(code)
		if got := record.Receipt; record.Status != jobs.Failed || got.Cause != want.Cause || got.Subject != want.Subject {
			b.t.Errorf("%q: cause %q, about %q, want %q, %q; %s, output %q", code, got.Cause, got.Subject, want.Cause, want.Subject, got.Text(), out)
		}
	}
}

// A missing part of an installed package is nothing to install, unless other packages share the
// first part of its name.
func TestHintsForPartsOfPackages(t *testing.T) {
	t.Parallel()
	installed := t.TempDir()
	for _, path := range []string{"single/__init__.py", "google/auth/__init__.py", "google/cloud/bigquery/__init__.py"} {
		write(t, installed, path, "")
	}
	b := newBenchIn(t, t.TempDir(), "PYTHONPATH="+installed)
	for code, want := range map[string]string{
		"import single.no_such":              "",
		"from single.no_such import thing":   "",
		"import google.auth.no_such":         "",
		"import google.protobuf":             "google.protobuf",
		"from google.cloud.storage import x": "google.cloud.storage.x",
	} {
		if record, out := b.run(code); record.Receipt.Subject != want || record.Receipt.End != jobs.Raised {
			t.Errorf("%q: about %q, want %q; output %q", code, record.Receipt.Subject, want, out)
		}
	}
}

// A module in the workspace is nothing to install. One in an environment in the workspace is.
func TestNoHintForModulesOfTheWorkspace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, path := range []string{"a_single.py", "src/a_package/__init__.py", "src/deep/a_space/part.py", "lib/a_binary.cpython-311-x86_64-linux-gnu.so",
		"env/pyvenv.cfg", "env/lib/python3/site-packages/elsewhere.py", "env/elsewhere.py", ".hidden/elsewhere.py", "elsewhere/data.txt"} {
		write(t, dir, path, "")
	}
	b := newBenchIn(t, dir)
	b.want("import sys; sys.path.remove('')", "completed")
	for module, want := range map[string]jobs.Cause{"a_single": "", "a_package": "", "a_space": "", "a_binary": "", "elsewhere": jobs.NoModule} {
		if record, _ := b.want("import "+module, "failed (ModuleNotFoundError: No module named '"+module+"')"); record.Receipt.Cause != want {
			t.Errorf("%s: cause %q, want %q", module, record.Receipt.Cause, want)
		}
	}
}
