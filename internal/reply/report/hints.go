package report

// This file says in the terms of the tools what to do about the cause of a failure or a refusal: a
// package that is missing, code that only IPython understands, a pip of another Python, input that a
// terminal can't take. It is the one place for that, so the packages below know no tools.

import (
	"fmt"
	"strings"

	"asyncrepl/internal/text/pattern"
	"asyncrepl/jobs"
)

// remedyFor returns the note that says what to do about the cause of a failure, or "".
func remedyFor(rec jobs.Receipt) string {
	switch rec.Cause {
	case jobs.NoModule:
		return moduleHint(rec.Subject)
	case jobs.NoPython:
		return "this is Python without IPython: " + commandHint(rec.Subject)
	case jobs.OtherPip:
		return pipHint
	}
	return ""
}

// pipHint is the note about a pip of another Python that refused to install.
const pipHint = "nothing was installed: that pip belongs to another Python than the sessions'; use install_package_async, " +
	"or pip by its name alone with the PATH that jobs have; PIP_REQUIRE_VIRTUALENV=0 allows the other one"

// packages maps a module to its package if the names differ. It is empty for a module that several
// packages have parts of.
var packages = map[string]string{
	"Crypto": "pycryptodome", "Cryptodome": "pycryptodomex", "MySQLdb": "mysqlclient", "OpenSSL": "pyOpenSSL", "PIL": "pillow",
	"Xlib": "python-xlib", "absl": "absl-py", "attr": "attrs", "azure": "", "bs4": "beautifulsoup4", "cairo": "pycairo",
	"cv2": "opencv-python-headless", "dateutil": "python-dateutil", "discord": "discord.py", "distutils": "setuptools",
	"dns": "dnspython", "docx": "python-docx", "dotenv": "python-dotenv", "ffmpeg": "ffmpeg-python", "fitz": "PyMuPDF",
	"gi": "PyGObject", "git": "GitPython", "github": "PyGithub", "gitlab": "python-gitlab", "google": "",
	"google.auth": "google-auth", "google.cloud.bigquery": "google-cloud-bigquery", "google.cloud.storage": "google-cloud-storage",
	"google.genai": "google-genai", "google.generativeai": "google-generativeai", "google.protobuf": "protobuf",
	"googleapiclient": "google-api-python-client", "grpc": "grpcio", "imblearn": "imbalanced-learn", "jose": "python-jose",
	"jwt": "PyJWT", "kafka": "kafka-python", "ldap": "python-ldap", "magic": "python-magic", "markdown_it": "markdown-it-py",
	"memcache": "python-memcached", "mpl_toolkits": "matplotlib", "mysql": "mysql-connector-python", "nacl": "PyNaCl",
	"osgeo": "GDAL", "pkg_resources": "setuptools", "pptx": "python-pptx", "psycopg2": "psycopg2-binary", "pylab": "matplotlib",
	"rest_framework": "djangorestframework", "ruamel": "ruamel.yaml", "serial": "pyserial", "skimage": "scikit-image",
	"sklearn": "scikit-learn", "slugify": "python-slugify", "socks": "PySocks", "speech_recognition": "SpeechRecognition",
	"telegram": "python-telegram-bot", "umap": "umap-learn", "usb": "pyusb", "websocket": "websocket-client", "wx": "wxPython",
	"yaml": "PyYAML", "zmq": "pyzmq",
}

// moduleHint says how to install a missing module. The path can continue with what the code imports
// from the module.
func moduleHint(path string) string {
	for name := path; ; {
		pkg, known := packages[name]
		switch {
		case known && pkg != "":
			return fmt.Sprintf("install_package_async(package=%q) installs %s", pkg, name)
		case known:
			return fmt.Sprintf("install_package_async installs packages; several have parts of %s", name)
		}
		i := strings.LastIndexByte(name, '.')
		if i < 0 {
			return fmt.Sprintf("install_package_async(package=%q) installs it, if its package has the same name", name)
		}
		name = name[:i]
	}
}

var (
	// installLine matches a command that installs packages; its group has the arguments.
	installLine = pattern.Lazy(`^[%!]*\s*(?:sudo\s+)?(?:uv\s+|python[\d.]*\s+-m\s+)?(?:pip[\d.]*|conda|mamba)\s+install\s+(.+)$`)

	magicLine = pattern.Lazy(`^%%?(\w+)\s*(.*)$`)
)

// magics says what to use in place of a magic command of IPython. %q stands for its argument.
// https://ipython.readthedocs.io/en/stable/interactive/magics.html
var magics = map[string]string{
	"autoreload": "importlib.reload loads a module again", "bash": shellHint,
	"capture": "contextlib.redirect_stdout captures output",
	"cd":      "os.chdir(%q)", "conda": "install_package_async installs packages", "debug": "import pdb; pdb.pm()",
	"env":     "os.environ has the environment",
	"history": "list_jobs shows what was run", "load_ext": "extensions can't be loaded", "lprun": "use the module cProfile",
	"matplotlib": "leave the line out", "mamba": "install_package_async installs packages", "pdb": "import pdb; pdb.pm()",
	"pip": "install_package_async installs packages", "prun": "use the module cProfile", "pwd": "os.getcwd()", "pylab": "leave the line out",
	"reload_ext": "importlib.reload loads a module again", "reset": "restart_python_worker clears the session", "script": shellHint,
	"set_env": "os.environ has the environment", "sh": shellHint, "time": "use time.perf_counter()", "timeit": "use the module timeit",
	"uv": shellHint, "who": "list_variables", "whos": "list_variables", "writefile": "pathlib.Path(%q).write_text(…)",
}

const shellHint = "execute_command_async runs shell commands"

// commandHint says what to use in place of a line for IPython.
func commandHint(line string) string {
	if m := installLine().FindStringSubmatch(line); m != nil {
		if names := installNames(m[1]); names != "" {
			return fmt.Sprintf("install_package_async(package=%q)", names)
		}
		return magics["pip"]
	}
	if m := magicLine().FindStringSubmatch(line); m != nil {
		return magicHint(m[1], strings.TrimSpace(m[2]), strings.HasPrefix(line, "%%"))
	}
	if strings.HasPrefix(line, "!") {
		command := strings.TrimSpace(strings.TrimLeft(line, "!"))
		return fmt.Sprintf("execute_command_async(command=%q)", command)
	}
	return fmt.Sprintf("help(%s)", strings.Trim(line, "?"))
}

// magicHint says what to use in place of one magic command, for a line or for a cell.
func magicHint(name, argument string, cell bool) string {
	text, known := magics[name]
	switch {
	case name == "run":
		return runHint(strings.Fields(argument))
	case strings.Contains(text, "%q"):
		return fmt.Sprintf(text, argument)
	case known:
		return text
	case cell:
		return "%%" + name + " is not there"
	case name == "sx" || name == "system":
		return fmt.Sprintf("execute_command_async(command=%q)", argument)
	}
	switch name { // IPython's aliases of shell commands
	case "cat", "cp", "ls", "mkdir", "mv", "rm", "rmdir":
		return fmt.Sprintf("execute_command_async(command=%q)", strings.TrimSpace(name+" "+argument))
	}
	return "%" + name + " is not there; " + shellHint
}

// runHint says what to use in place of %run with arguments. Its options come first.
func runHint(arguments []string) string {
	for len(arguments) > 0 && strings.HasPrefix(arguments[0], "-") {
		arguments = arguments[1:]
	}
	if len(arguments) == 0 {
		return "execute_python(path=…) runs a file"
	}
	path, more := strings.CutSuffix(arguments[0], ";")
	switch {
	case more && len(arguments) > 1:
		return fmt.Sprintf("execute_python(path=%q), and the rest in another call", path)
	case len(arguments) > 1:
		return fmt.Sprintf("execute_python(path=%q, args=[…])", path)
	}
	return fmt.Sprintf("execute_python(path=%q)", path)
}

// installNames returns the arguments of an install without the options that are not needed.
func installNames(arguments string) string {
	var kept []string
	fields := strings.Fields(arguments)
	for i, field := range fields {
		// install_package_async takes these options, too.
		withArgument := field == "-r" || field == "-c" || field == "-e"
		if !strings.HasPrefix(field, "-") || withArgument && i+1 < len(fields) {
			kept = append(kept, field)
		}
	}
	return strings.Join(kept, " ")
}
