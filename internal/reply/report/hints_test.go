package report

import (
	"strings"
	"testing"

	"asyncrepl/jobs"
)

func TestHints(t *testing.T) {
	const plain = "this is Python without IPython: "
	for subject, want := range map[string]string{
		"sklearn":                       `install_package_async(package="scikit-learn") installs sklearn`,
		"sklearn.cluster.KMeans":        `install_package_async(package="scikit-learn") installs sklearn`,
		"google.protobuf.message":       `install_package_async(package="protobuf") installs google.protobuf`,
		"google.cloud.storage":          `install_package_async(package="google-cloud-storage") installs google.cloud.storage`,
		"google.cloud.vision":           `install_package_async installs packages; several have parts of google`,
		"requests":                      `install_package_async(package="requests") installs it, if its package has the same name`,
		"requests.adapters":             `install_package_async(package="requests") installs it, if its package has the same name`,
		"%pip install -q six==1.17":     plain + `install_package_async(package="six==1.17")`,
		"!pip install a 'b>1' -r r.txt": plain + `install_package_async(package="a 'b>1' -r r.txt")`,
		"! sudo pip3 install -U x":      plain + `install_package_async(package="x")`,
		"!python3 -m pip install x":     plain + `install_package_async(package="x")`,
		"!uv pip install x":             plain + `install_package_async(package="x")`,
		"%conda install -y x":           plain + `install_package_async(package="x")`,
		"!pip list":                     plain + `execute_command_async(command="pip list")`,
		"pip install six":               plain + `install_package_async(package="six")`,
		"uv pip install -q":             plain + `install_package_async installs packages`,
		"%pip list":                     plain + `install_package_async installs packages`,
		"!!ls -la":                      plain + `execute_command_async(command="ls -la")`,
		"%ls -la":                       plain + `execute_command_async(command="ls -la")`,
		"%%bash":                        plain + `execute_command_async runs shell commands`,
		"%sx ls":                        plain + `execute_command_async(command="ls")`,
		"%run a.py":                     plain + `execute_python(path="a.py")`,
		"%run":                          plain + `execute_python(path=…) runs a file`,
		"%run -i a.py":                  plain + `execute_python(path="a.py")`,
		"%run a.py; x":                  plain + `execute_python(path="a.py"), and the rest in another call`,
		"%run a.py x":                   plain + `execute_python(path="a.py", args=[…])`,
		"%cd ..":                        plain + `os.chdir("..")`,
		"%%timeit":                      plain + `use the module timeit`,
		"%matplotlib inline":            plain + `leave the line out`,
		"%whos":                         plain + `list_variables`,
		"%nothing x":                    plain + `%nothing is not there; execute_command_async runs shell commands`,
		"%%nothing":                     plain + `%%nothing is not there`,
		"df.head??":                     plain + `help(df.head)`,
		"?print":                        plain + `help(print)`,
		"":                              plain + `help()`,
	} {
		rec := jobs.Receipt{End: jobs.Raised, Cause: jobs.NoModule, Subject: subject}
		if want[:4] == plain[:4] {
			rec.Cause = jobs.NoPython
		}
		if got := remedyFor(rec); got != want {
			t.Errorf("%s: %q, want %q", subject, got, want)
		}
	}
	if got := remedyFor(jobs.Receipt{End: jobs.Exited, Code: 3, Cause: jobs.OtherPip}); !strings.Contains(got, "install_package_async") {
		t.Errorf("a pip that refused: %q", got)
	}
	for _, cause := range []jobs.Cause{"", jobs.NoTerminal} {
		if got := remedyFor(jobs.Receipt{Cause: cause}); got != "" {
			t.Errorf("%q: %q", cause, got)
		}
	}
}
