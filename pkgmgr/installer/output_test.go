package installer

import (
	"strings"
	"testing"

	"asyncrepl/internal/test/racetest"
)

// The texts are output of pip 21 to 26 and uv 0.5 to 0.13, shortened.
const indexRemedy = "check the network and the address, or set PIP_INDEX_URL and UV_DEFAULT_INDEX to an index that can be reached"

// noRepository returns git's output about a repository that does not exist.
func noRepository(indent string) string {
	return indent + "fatal: '/nonexistent/repo' does not appear to be a git repository\n" + indent + "fatal: Could not read from remote repository.\n\n" +
		indent + "Please make sure you have the correct access rights\n" + indent + "and the repository exists.\n"
}

func TestCause(t *testing.T) {
	racetest.Skip(t)
	tests := map[string]struct{ said, want string }{
		"pip, versions": {"ERROR: Could not find a version that satisfies the requirement six==99.0 (from versions: 1.14.0, 1.15.0, 1.16.0, 1.17.0)\nERROR: No matching distribution found for six==99.0",
			"No matching distribution found for six==99.0"},
		"pip, a requirement against a constraint": {"ERROR: Cannot install six==1.16.0 because these package versions have conflicting dependencies.\n\n" +
			"The conflict is caused by:\n    The user requested six==1.16.0\n    The user requested (constraint) six<1.16\n\nTo fix this you could try to:\n",
			"the versions conflict: The user requested six==1.16.0 The user requested (constraint) six<1.16; loosen them"},
		"pip, versions for another Python": {"ERROR: Ignored the following versions that require a different python version: 2.0 Requires-Python >=3.12\n" +
			"ERROR: Could not find a version that satisfies the requirement six>=2 (from versions: 1.16.0)\nERROR: No matching distribution found for six>=2",
			"no version of six>=2 that fits runs on this Python (it requires >=3.12); ask for another version"},
		"pip, a wheel for another system": {"ERROR: tag-1.0-cp27-cp27m-win32.whl is not a supported wheel on this platform.",
			"tag-1.0-cp27-cp27m-win32.whl is not a supported wheel on this platform."},
		"pip, a wheel that is none": {"Processing ./bad-1.0-py3-none-any.whl\nERROR: Wheel 'bad' located at /w/bad-1.0-py3-none-any.whl is invalid.",
			"Wheel 'bad' located at /w/bad-1.0-py3-none-any.whl is invalid."},
		"pip 26, no connection": {"error: connection-failed\n\n× Failed to connect to 127.0.0.1 while fetching http://127.0.0.1:1/spam-1.0-py3-none-any.whl\n╰─> [Errno 111] Connection refused\n\nhint: Are you connected?",
			"http://127.0.0.1:1 can't be reached (connection refused); " + indexRemedy},
		"pip 23, no connection": {"ERROR: Could not install packages due to an OSError: HTTPSConnectionPool(host='example.org', port=443): Max retries exceeded with url: /a.whl (Caused by NewConnectionError('<X>: Failed to establish a new connection: [Errno 101] Network is unreachable'))",
			"example.org can't be reached (network is unreachable); " + indexRemedy},
		"uv, no connection": {"error: Failed to download `x @ https://127.0.0.1:1/x-1.0-py3-none-any.whl`\n  cause: Request failed after 3 retries\n  cause: Failed to fetch: https://127.0.0.1:1/x-1.0-py3-none-any.whl\n  cause: Connection refused (os error 111)",
			"https://127.0.0.1:1 can't be reached (connection refused); " + indexRemedy},
		"pip, no name service": {"WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError('<HTTPSConnection object>: Failed to establish a new connection: [Errno -3] Temporary failure in name resolution')': /simple/six/\n" +
			"ERROR: Could not find a version that satisfies the requirement six (from versions: none)\nERROR: No matching distribution found for six",
			"the index can't be reached (name resolution); " + indexRemedy},
		"pip, a hiccup of the network, then something else": {"WARNING: Retrying (Retry(total=4)) after connection broken by 'X': /simple/six/\n" +
			"ERROR: Could not find a version that satisfies the requirement six==99 (from versions: 1.0)\nERROR: No matching distribution found for six==99",
			"No matching distribution found for six==99"},
		"pip, not found over HTTP": {"ERROR: HTTP error 404 while getting https://example.org/a.whl\nERROR: 404 Client Error: Not Found for url: https://example.org/a.whl",
			"404 Client Error: Not Found for url: https://example.org/a.whl"},
		"pip, certificate": {"ERROR: Could not install packages due to an OSError: HTTPSConnectionPool(host='x', port=443): Max retries exceeded with url: / (Caused by SSLError(SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED] self-signed')))",
			"the index's certificate is not trusted; set PIP_CERT and SSL_CERT_FILE to a file with its authority"},
		"pip, no git": {"Collecting git+https://h/x\n  Cloning https://h/x to /tmp/y\n  ERROR: Error [Errno 2] No such file or directory: 'git' while executing command git version\nERROR: Cannot find command 'git' - do you have 'git' installed and in your PATH?",
			"Cannot find command 'git' - do you have 'git' installed and in your PATH?"},
		"uv, no git": {"error: Git operation failed\n  cause: Git executable not found. Ensure that Git is installed and available.",
			"Git operation failed: Git executable not found. Ensure that Git is installed and available."},
		"pip, no compiler": {"Building wheels for collected packages: cext\n  Building wheel for cext (pyproject.toml): finished with status 'error'\n  error: subprocess-exited-with-error\n" +
			"      building 'cext' extension\n      error: command 'gcc' failed: No such file or directory\n      [end of output]\n  ERROR: Failed building wheel for cext",
			"building a package needs a compiler, and there is no gcc; install one (Debian, Ubuntu: apt install build-essential), or ask for a version that has a wheel"},
		"old pip, no compiler": {"error: command 'x86_64-linux-gnu-gcc' failed: No such file or directory\n  ERROR: Failed building wheel for cext",
			"building a package needs a compiler, and there is no x86_64-linux-gnu-gcc; install one (Debian, Ubuntu: apt install build-essential), or ask for a version that has a wheel"},
		"pip, no Python.h": {"      cext.c:1:10: fatal error: Python.h: No such file or directory\n  ERROR: Failed building wheel for cext",
			"building a package needs Python.h; install Python's (Debian, Ubuntu: apt install python3-dev), or ask for a version that has a wheel"},
		"uv, a header": {"error: Failed to build `cbad @ file:///w/cbad-1.0.tar.gz`\n  cause: The build backend returned an error\n         [stderr]\n         cbad.c:1:10: fatal error: nosuch.h: No such file or directory\n",
			"building a package needs nosuch.h; install the development files of its library, or ask for a version that has a wheel"},
		"pip, a build that can't begin": {"  × pip subprocess to install build dependencies did not run successfully.\n  error: subprocess-exited-with-error\nERROR: Failed to build 'file:///w/cext' when installing build dependencies",
			"Failed to build 'file:///w/cext' when installing build dependencies"},
		"old uv, boxed": {"  × No solution found when resolving dependencies:\n  ╰─▶ Because there are no versions of six==99 and you require six==99, we can conclude that your requirements are\n      unsatisfiable.",
			"No solution found when resolving dependencies: Because there are no versions of six==99 and you require six==99, we can conclude that your requirements are unsatisfiable."},
		"uv, not on the index": {"error: No solution found when resolving dependencies\n  cause: Because none-such was not found in the package registry and you require none-such, we can conclude that your\n         requirements are unsatisfiable.\n",
			"No solution found when resolving dependencies: Because none-such was not found in the package registry and you require none-such, we can conclude that your requirements are unsatisfiable."},
		"pip, no such repository": {"Collecting git+file:/nonexistent/repo\n  Running command git clone --filter=blob:none --quiet file:///nonexistent/repo /tmp/b\n" + noRepository("  ") +
			"  error: subprocess-exited-with-error\n  \n  × git clone --filter=blob:none --quiet file:///nonexistent/repo /tmp/b did not run successfully.\n  │ exit code: 128\n  ╰─> See above for output.\n",
			"git: '/nonexistent/repo' does not appear to be a git repository; check the address and who may read it"},
		"old pip, no such repository": {"  Running command git clone -q file:///nonexistent/repo /tmp/b\n" + noRepository("  ") +
			"WARNING: Discarding git+file:/nonexistent/repo. Command errored out with exit status 128: git clone -q file:///nonexistent/repo /tmp/b Check the logs for full command output.\n" +
			"ERROR: Command errored out with exit status 128: git clone -q file:///nonexistent/repo /tmp/b Check the logs for full command output.\n",
			"git: '/nonexistent/repo' does not appear to be a git repository; check the address and who may read it"},
		"uv, no such repository": {"   Updating file:///nonexistent/repo (HEAD)      error: Git operation failed\n  cause: failed to fetch into: /uv/git-v2/db/2a\n" +
			"  cause: process didn't exit successfully: `/usr/bin/git fetch --force --update-head-ok 'file:///nonexistent/repo'\n         '+HEAD:refs/remotes/origin/HEAD'` (exit status: 128)\n" +
			"         --- stderr\n" + noRepository("         "),
			"git: '/nonexistent/repo' does not appear to be a git repository; check the address and who may read it"},
		"pip, a repository that refuses to be read": {"  fatal: unable to access 'http://127.0.0.1/r/': The requested URL returned error: 403\n  error: subprocess-exited-with-error\n  \n  × git clone --quiet http://127.0.0.1/r /tmp/b did not run successfully.\n  │ exit code: 128\n",
			"git: unable to access 'http://127.0.0.1/r/': The requested URL returned error: 403; check the address and who may read it"},
		"old uv, no such branch": {"error: Git operation failed\n  Caused by: failed to fetch branch\n  Caused by: process didn't exit successfully: `git fetch` (exit status: 128)\n--- stderr\nfatal: couldn't find remote ref refs/heads/x\n",
			"git: couldn't find remote ref refs/heads/x; check the address and who may read it"},
		"pip, a build that git did not fail": {"Building wheels for collected packages: cbad\n  fatal: not a git repository (or any of the parent directories): .git\n  cbad.c:1:10: error: no\n  ERROR: Failed building wheel for cbad",
			"Failed building wheel for cbad"},
		"pip, a crash": {"ERROR: Exception:\nTraceback (most recent call last):\n  File \"/env/pip/_vendor/packaging/markers.py\", line 278, in __init__\n    self._markers = _coerce_parse_result(MARKER.parseString(marker))\n" +
			"pip._vendor.pyparsing.exceptions.ParseException: , found 'import'  (at char 0), (line:1, col:1)\n\nDuring handling of the above exception, another exception occurred:\n\n" +
			"Traceback (most recent call last):\n  File \"/env/pip/_internal/cli/base_command.py\", line 180, in exc_logging_wrapper\n    status = run_func(*args)\n" +
			"pip._vendor.packaging.markers.InvalidMarker: Invalid marker: 'import_error', parse error at 'import_e'\n",
			"InvalidMarker: Invalid marker: 'import_error', parse error at 'import_e'"},
		"pip, a crash with lines after its reason": {"ERROR: Exception:\nTraceback (most recent call last):\n  File \"x.py\", line 1, in f\npip._vendor.packaging.version.InvalidVersion: Invalid version: ''\n    six===\n       ^\nWARNING: bye\n",
			"InvalidVersion: Invalid version: ''"},
		"uv, no project, broken at the width": {"error: `/tmp/ocwsfqxtq3fq` does not appear to be a Python project, as neither `pyproject.toml` nor `setup.py` are\n       present in the directory\n",
			"`/tmp/ocwsfqxtq3fq` does not appear to be a Python project, as neither `pyproject.toml` nor `setup.py` are present in the directory"},
		"uv, a wheel of another name, broken at the width": {"error: Requested package name `six` does not match `tinypkg` in the distribution filename:\n       file:///tmp/oc/tinypkg-1.0-py3-none-any.whl\n",
			"Requested package name `six` does not match `tinypkg` in the distribution filename: file:///tmp/oc/tinypkg-1.0-py3-none-any.whl"},
		"uv, a line that the next one does not continue": {"error: Failed to build `broken @ file:///w/a-directory-with-a-long-name-for-a-project/another-one/broken-1.0.tar.gz`\n  cause: Call to `build_wheel` failed\n",
			"Failed to build `broken @ file:///w/a-directory-with-a-long-name-for-a-project/another-one/broken-1.0.tar.gz`: Call to `build_wheel` failed"},
		"old uv, boxed and broken at the width": {"  × Failed to build `broken @ file:///w/a-directory-with-a-long-name-for-a-project/another-directory/broken-1.0.tar.gz`\n" +
			"  ├─▶ The build backend returned an error\n  ╰─▶ Call to `a_build_backend_with_a_rather_long_name.of_a_module.build_wheel` did not succeed, as the command said\n      (exit status: 1)\n\n      [stderr]\n      ValueError: no\n",
			"Failed to build `broken @ file:///w/a-directory-with-a-long-name-for-a-project/another-directory/broken-1.0.tar.gz`: " +
				"Call to `a_build_backend_with_a_rather_long_name.of_a_module.build_wheel` did not succeed, as the command said (exit status: 1)"},
		"disk full": {"ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device\n", "the disk is full; free some space, of pip's or uv's cache for one"},
		"uv, disk full": {"error: Failed to install: spam\n  cause: failed to copy file from /a to /b: No space left on device (os error 28)",
			"the disk is full; free some space, of pip's or uv's cache for one"},
		"pip, read-only": {"ERROR: Could not install packages due to an OSError: [Errno 30] Read-only file system: '/env/lib/python3.11/site-packages/spam.py'\n",
			"Could not install packages due to an OSError: [Errno 30] Read-only file system: '/env/lib/python3.11/site-packages/spam.py'"},
		"uv, permission": {"error: Failed to install: spam-1.0.whl (spam==1.0)\n  cause: failed to create file `/env/lib/x`: Permission denied (os error 13)",
			"Failed to install: spam-1.0.whl (spam==1.0): failed to create file `/env/lib/x`: Permission denied (os error 13)"},
		"old uv, permission": {"error: Failed to install: spam-1.0.whl (spam==1.0)\n  Caused by: failed to create file `/env/lib/x`: Permission denied (os error 13)",
			"Failed to install: spam-1.0.whl (spam==1.0): failed to create file `/env/lib/x`: Permission denied (os error 13)"},
		"uv, one equals sign": {"error: Failed to parse: `six=1`\n  cause: no such comparison operator \"=\", must be one of ~= == != <= >= < > ===\n         six=1\n            ^^\n",
			"Failed to parse: `six=1`: no such comparison operator \"=\", must be one of ~= == != <= >= < > ==="},
		"pip, one equals sign": {"ERROR: Invalid requirement: 'six=1': Expected end or semicolon\n    six=1\n       ^\nHint: = is not a valid operator. Did you mean == ?\n",
			"Invalid requirement: 'six=1': Expected end or semicolon"},
		"uv, a build that fails": {"error: Failed to build `broken @ file:///w/broken-1.0.tar.gz`\n  cause: The build backend returned an error\n  cause: Call to `backend.build_wheel` failed (exit status: 1)\n\n         [stderr]\n         ValueError: no\n",
			"Failed to build `broken @ file:///w/broken-1.0.tar.gz`: Call to `backend.build_wheel` failed (exit status: 1)"},
		"an unknown error":  {"something\nERROR: the moon is wrong\nbye", "the moon is wrong"},
		"nothing but words": {"something\nbye\n", "bye"},
		"nothing":           {"", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Cause(tt.said); got != tt.want {
				t.Errorf("%q\nwant %q", got, tt.want)
			}
		})
	}
	if got := Cause(strings.Repeat("ERROR: x ", 7000)); len(got) > 450 {
		t.Errorf("a cause of %d bytes", len(got))
	}
}

func TestIsForbidden(t *testing.T) {
	for said, want := range map[string]bool{
		"error: The interpreter at `/usr` is externally managed, and indicates the following:\n\n  To install Python packages system-wide, try apt": true,
		"error: The interpreter at `/usr` is externally\n  managed, and indicates the following:":                                                   true,
		"error: externally-managed-environment\n\n× This environment is externally managed\n":                                                       true,
		"ERROR: the moon is wrong": false,
	} {
		if got := IsForbidden(said); got != want {
			t.Errorf("%q: %v, want %v", said, got, want)
		}
	}
}
