package pkgmgr

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// arguments is what an installer is told of a text.
func arguments(m *Manager, text string) ([]string, error) {
	run, err := m.Install(text)
	if err != nil {
		return nil, err
	}
	return append(run.(*install).options, run.(*install).reqs...), nil
}

func TestArguments(t *testing.T) {
	w := newWorld(t)
	ws, home := w.cfg.Workspace, w.path("home")
	in := func(name string) string { return "file://" + strings.ReplaceAll(ws, " ", "%20") + name }
	for _, dir := range []string{"work space", "work space/my proj", "work space/odd[1]", "work space/-r", "home/proj"} {
		w.project(dir, "proj", "1", "1", "")
	}
	w.write("work space/list.txt", "", 0o666)
	w.write("work space/-x.txt", "", 0o666)
	w.write("work space/a-1-py3-none-any.whl", "", 0o666)
	w.write("work space/sub/b.tar.gz", "", 0o666)
	tests := map[string]struct {
		text string
		want []string
	}{
		"names":                 {"a b[c]>1", []string{"a", "b[c]>1"}},
		"the workspace":         {".", []string{in("")}},
		"a quoted path":         {`'./my proj'`, []string{in("/my%20proj")}},
		"extras":                {`.[more] "./my proj[more]"`, []string{ws + "[more]", ws + "/my proj[more]"}},
		"brackets of a name":    {"./odd[1]", []string{in("/odd%5B1%5D")}},
		"brackets and extras":   {"./odd[1][more]", []string{ws + "/odd[1][more]"}},
		"a wheel by its name":   {"a-1-py3-none-any.whl", []string{in("/a-1-py3-none-any.whl")}},
		"an archive":            {"sub/b.tar.gz", []string{in("/sub/b.tar.gz")}},
		"a full path":           {home + "/proj", []string{"file://" + home + "/proj"}},
		"a path of the home":    {"~/proj", []string{"file://" + home + "/proj"}},
		"a named path":          {"proj[more] @ ./a-1-py3-none-any.whl", []string{"proj[more] @ " + in("/a-1-py3-none-any.whl")}},
		"a path with a marker":  {`./sub/b.tar.gz ; os_name=="posix"`, []string{in("/sub/b.tar.gz") + ` ; os_name == "posix"`}},
		"a list":                {"-r list.txt -c list.txt", []string{"--requirement=" + ws + "/list.txt", "--constraint=" + ws + "/list.txt"}},
		"a list like an option": {"-r -x.txt", []string{"--requirement=" + ws + "/-x.txt"}},
		"a list elsewhere":      {"-r https://h/list.txt", []string{"--requirement=https://h/list.txt"}},
		"a path like an option": {"./-r -e ./-r", []string{"--editable=" + in("/-r"), in("/-r")}},
		"editable":              {"-e . -e './my proj[more]'", []string{"--editable=" + in(""), "--editable=" + ws + "/my proj[more]"}},
		"addresses": {"https://h/a.whl git+https://h/x.git@v1#subdirectory=y hg+https://h/x svn+ssh://h/x file://" + home + "/proj",
			[]string{"https://h/a.whl", "git+https://h/x.git@v1#subdirectory=y", "hg+https://h/x", "svn+ssh://h/x", "file://" + home + "/proj"}},
	}
	m := New(w.cfg)
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := arguments(m, tt.text)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func TestArgumentsRefused(t *testing.T) {
	w := newWorld(t)
	ws := w.cfg.Workspace
	w.write("work space/empty/readme", "", 0o666)
	w.write("work space/odd;dir/setup.py", "", 0o666)
	w.write("work space/notes.md", "", 0o666)
	w.write("work space/a.whl", "", 0o666)
	w.write("work space/locked.txt", "", 0)
	tests := map[string]struct{ text, want string }{
		"no file":                 {"-r nothing.txt", "there is no " + ws + "/nothing.txt; relative paths start in the workspace"},
		"no file, full path":      {"-r /no/such/file", "there is no /no/such/file"},
		"a directory as a list":   {"-r empty", ws + "/empty is not a file"},
		"a device as a list":      {"-r /dev/stdin", "is not a file"},
		"a list elsewhere":        {"-r ftp://h/x", "by an address with https://"},
		"no bounds":               {"a -c nothing.txt", "there is no " + ws + "/nothing.txt"},
		"no path":                 {"./nothing", "there is no " + ws + "/nothing; relative paths start in the workspace"},
		"no path with extras":     {"./nothing[x]", "there is no " + ws + "/nothing; relative"},
		"no wheel":                {"b.whl", "there is no " + ws + "/b.whl"},
		"no project":              {"./empty", "holds neither a pyproject.toml nor a setup.py"},
		"another file":            {"./notes.md", "neither a directory nor a wheel nor a source archive"},
		"a path behind a file":    {"./a.whl/b", "can't be used"},
		"an archive as editable":  {"-e a.whl", "an archive stands on its own"},
		"an address as editable":  {"-e git+https://h/x", "an address stands on its own"},
		"extras that can't be":    {"./odd;dir[x]", "write the name before it"},
		"an address half written": {"github.com/x/y", "an address begins with https://"},
		"git's own spelling":      {"x @ git@github.com:x/y.git", "an address begins with https://"},
		"a repository":            {"https://h/x.git", "given as git+https://h/x.git"},
		"other schemes":           {"ftp://h/a.whl", "no package can be fetched by ftp:"},
		"other systems":           {"cvs+https://h/x", "no package can be fetched by cvs+https:"},
		"other transports":        {"git+ext://h/x", "no package can be fetched by git+ext:"},
		"no host":                 {"https:///a.whl", "names no host"},
		"no file there":           {"file:///no/such/a.whl", "there is no /no/such/a.whl"},
		"a relative address":      {"file:a.whl", "file:// and its full path"},
		"a file of a host":        {"file://host/a.whl", "file:// and its full path"},
		"a host like an option":   {"git+ssh://-oProxyCommand=x/y", "no part of it may begin with -"},
		"a user like an option":   {"git+ssh://-oProxyCommand=x@h/y", "no part of it may begin with -"},
		"a branch like an option": {"hg+https://h/x@--config=alias.x=!y", "no part of it may begin with -"},
		"not an address":          {"https://h:x/y", "not a well-formed address"},
		"a long path":             {"./" + strings.Repeat("x", 5000), "longer than 4096 bytes"},
	}
	if os.Geteuid() != 0 { // who may read everything
		tests["a locked list"] = struct{ text, want string }{"-r locked.txt", "locked.txt can't be read: permission denied"}
	}
	m := New(w.cfg)
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := arguments(m, tt.text)
			var refused *RequirementError
			if !errors.As(err, &refused) {
				t.Fatalf("%q, %v; want a refusal", got, err)
			}
			if !strings.Contains(refused.Reason, tt.want) || len(err.Error()) > 800 {
				t.Errorf("%v\nwant a reason with %q", err, tt.want)
			}
		})
	}
}
