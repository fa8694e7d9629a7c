package installer

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// places returns a workspace with a blank in its name, in a directory with a home and the given
// files. A name that ends in a slash is a directory. files are relative to the directory, which is
// returned.
func places(t *testing.T, files ...string) (in Places, root string) {
	t.Helper()
	root = t.TempDir()
	in = Places{Workspace: filepath.Join(root, "work space"), Home: filepath.Join(root, "home")}
	for _, name := range append(files, "work space/", "home/") {
		path := filepath.Join(root, name)
		dir := filepath.Dir(path)
		if strings.HasSuffix(name, "/") {
			dir = path
		}
		err := os.MkdirAll(dir, 0o777)
		if err == nil && dir != path {
			err = os.WriteFile(path, nil, 0o666)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return in, root
}

func TestArguments(t *testing.T) {
	in, root := places(t, "work space/my proj/", "work space/odd[1]/", "work space/-r/", "work space/a/", "work space/f/g/", "b/", "home/e/",
		"work space/list.txt", "work space/b c.txt", "work space/-x.txt", "work space/a-1.0-py3-none-any.whl", "work space/b-1.tar.gz",
		"work space/C.ZIP", "work space/d.whl")
	// WS and ROOT are the workspace and the directory above it, FILE: the workspace's address.
	fill := strings.NewReplacer("FILE:", "file://"+strings.ReplaceAll(in.Workspace, " ", "%20"), "WS", in.Workspace, "ROOT", root)
	tests := map[string]struct {
		text string
		want []string
	}{
		"one name":                   {"requests", []string{"requests"}},
		"names by blanks":            {"  requests   flask ", []string{"requests", "flask"}},
		"names by commas":            {"requests, flask,numpy", []string{"requests", "flask", "numpy"}},
		"names by lines":             {"requests\r\nflask\n\nnumpy\n", []string{"requests", "flask", "numpy"}},
		"all characters of a name":   {"A0._-z", []string{"A0._-z"}},
		"name of one digit and more": {"3to2", []string{"3to2"}},
		"name like a module file":    {"discord.py web.py", []string{"discord.py", "web.py"}},
		"pin":                        {"requests==2.32.0", []string{"requests==2.32.0"}},
		"range":                      {"requests>=2,<3", []string{"requests>=2,<3"}},
		"range, then a name":         {"requests>=2,<3,numpy", []string{"requests>=2,<3", "numpy"}},
		"range with blanks":          {"requests >= 2 , < 3 , numpy", []string{"requests >= 2 , < 3", "numpy"}},
		"comma at the end":           {"a>=1,", []string{"a>=1"}},
		"range in parentheses":       {"requests (>=2, <3) numpy", []string{"requests (>=2, <3)", "numpy"}},
		"every operator":             {"a~=1.2 b==1 c!=1 d<=1 e>=1 f<1 g>1 h===1-x", []string{"a~=1.2", "b==1", "c!=1", "d<=1", "e>=1", "f<1", "g>1", "h===1-x"}},
		"any patch":                  {"a==1.2.* b!=2.*", []string{"a==1.2.*", "b!=2.*"}},
		"versions of all kinds":      {"a==1!2.0rc1.post2.dev3+cu118.x b==v1.0-1 c>=2024.1.0a", []string{"a==1!2.0rc1.post2.dev3+cu118.x", "b==v1.0-1", "c>=2024.1.0a"}},
		"extras":                     {"flask[async, dotenv] uvicorn [ standard , b ]>=1 x[]", []string{"flask[async, dotenv]", "uvicorn [ standard , b ]>=1", "x[]"}},
		"marker":                     {`numpy; python_version>"3.9"`, []string{`numpy; python_version>"3.9"`}},
		"a marker keeps its line":    {"numpy;python_version>'3.9' flask\nscipy", []string{"numpy;python_version>'3.9' flask", "scipy"}},
		"marker with all there is":   {`a>1 ; (os_name=='nt' or "linux" in sys_platform)and platform_machine not  in "x86_64 arm64", `, []string{`a>1 ; (os_name=='nt' or "linux" in sys_platform)and platform_machine not  in "x86_64 arm64"`}},
		"quotes":                     {`'numpy; python_version>"3.9"' "a; os_name == 'posix'","b"`, []string{`numpy; python_version>"3.9"`, `a; os_name == 'posix'`, "b"}},
		"quotes and blanks":          {`" a >= 1 "`, []string{"a >= 1"}},
		"requirements as in a table": {`requests>=2,<3 'numpy; python_version>"3.9"' flask[async]`, []string{"requests>=2,<3", `numpy; python_version>"3.9"`, "flask[async]"}},

		"address":                     {"https://example.org/a-1.0.whl?x=1#sha256=2", []string{"https://example.org/a-1.0.whl?x=1#sha256=2"}},
		"addresses and names":         {"a, http://h/a.whl, git+ssh://git@h/x.git@v1#egg=x b", []string{"a", "http://h/a.whl", "git+ssh://git@h/x.git@v1#egg=x", "b"}},
		"addresses of all kinds":      {"hg+https://h/x svn+ssh://h/x file:///h/proj", []string{"hg+https://h/x", "svn+ssh://h/x", "file:///h/proj"}},
		"semicolon in an address":     {"https://h/a;b.whl c", []string{"https://h/a;b.whl", "c"}},
		"named address":               {"a[b] @ https://h/a.whl", []string{"a[b] @ https://h/a.whl"}},
		"named address, no blanks":    {"a@https://h/a.whl", []string{"a @ https://h/a.whl"}},
		"a named address keeps all":   {"a @ https://h/a.whl b\nc", []string{"a @ https://h/a.whl b", "c"}},
		"version by @":                {"a@1.2", []string{"a @ 1.2"}}, // the installer refuses it
		"named path":                  {"a @ ./a", []string{"a @ FILE:/a"}},
		"named path and extras":       {"a[b] @ ./b-1.tar.gz", []string{"a[b] @ FILE:/b-1.tar.gz"}},
		"named place with a marker":   {`a @ ./a ; os_name=="nt"`, []string{`a @ FILE:/a ; os_name=="nt"`}},
		"paths":                       {". .. ./a ../b ROOT/b ~/e f/g", []string{"FILE:", "file://ROOT", "FILE:/a", "file://ROOT/b", "file://ROOT/b", "file://ROOT/home/e", "FILE:/f/g"}},
		"path with extras":            {".[dev] ./a[b,c]", []string{"WS[dev]", "WS/a[b,c]"}},
		"path with blanks":            {`'./my proj' "./my proj[more]"`, []string{"FILE:/my%20proj", "WS/my proj[more]"}},
		"brackets of a name":          {"./odd[1] ./odd[1][more]", []string{"FILE:/odd%5B1%5D", "WS/odd[1][more]"}},
		"wheel and archives":          {"a-1.0-py3-none-any.whl b-1.tar.gz C.ZIP d.whl[e]", []string{"FILE:/a-1.0-py3-none-any.whl", "FILE:/b-1.tar.gz", "FILE:/C.ZIP", "WS/d.whl[e]"}},
		"place with a marker":         {"./a ; os_name=='nt'\n./a; os_name=='nt'", []string{"FILE:/a ; os_name=='nt'", "FILE:/a ; os_name=='nt'"}},
		"file with requirements":      {"-r list.txt", []string{"--requirement=WS/list.txt"}},
		"file elsewhere":              {"-r https://h/list.txt", []string{"--requirement=https://h/list.txt"}},
		"options in all spellings":    {`-r list.txt --requirement=list.txt -c 'b c.txt' --constraint "b c.txt", -e . --editable ./a[g,h]`, []string{"--requirement=WS/list.txt", "--requirement=WS/list.txt", "--constraint=WS/b c.txt", "--constraint=WS/b c.txt", "--editable=FILE:", "--editable=WS/a[g,h]"}},
		"names like options":          {"-r -x.txt ./-r -e ./-r", []string{"--requirement=WS/-x.txt", "--editable=FILE:/-r", "FILE:/-r"}},
		"options first":               {"requests>=2,<3, -r list.txt ./a git+https://h/c", []string{"--requirement=WS/list.txt", "requests>=2,<3", "FILE:/a", "git+https://h/c"}},
		"what the installer refuses":  {"a; rm -rf x\nb && c", []string{"a; rm -rf x", "b", "&&", "c"}},
		"one equals sign, no version": {"a=1 b==", []string{"a=1", "b=="}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			args, err := Parse(fill.Replace(tt.text), in)
			if err != nil {
				t.Fatal(err)
			}
			got := append(args.Options, args.Packages...)
			want := slices.Clone(tt.want)
			for i := range want {
				want[i] = fill.Replace(want[i])
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func TestArgumentsRefused(t *testing.T) {
	in, _ := places(t, "work space/a.whl")
	ws := in.Workspace
	tests := map[string]struct{ text, want string }{
		"nothing":                {"", "nothing to install"},
		"separators only":        {" ,\n", "nothing to install"},
		"empty quotes":           {`""`, "not closed, or empty"},
		"quote not closed":       {`"a`, "not closed, or empty"},
		"control character":      {"a\x00b", "control character"},
		"very long":              {strings.Repeat("a ", maxText), "several calls"},
		"long option":            {"requests --index-url=https://example.org", "looks like an option"},
		"option in quotes":       {`"--upgrade" requests`, "looks like an option"},
		"option within quotes":   {`"-r x"`, "looks like an option"},
		"other option":           {"-U requests", "only -r FILE, -c FILE and -e DIRECTORY are taken; for a newer version"},
		"option run together":    {"-rx", "looks like an option"},
		"dash":                   {"-", "looks like an option"},
		"option, no path":        {"-r", "takes the path that follows it, such as -r requirements.txt"},
		"option, no directory":   {"a -e", "takes the path that follows it, such as -e ./project"},
		"option, path next line": {"-r\nx", "takes the path that follows"},
		"command line":           {"pip install requests", "leave the words of the command line out"},
		"requirements file":      {"requirements.txt", "write -r requirements.txt"},
		"project file":           {"pyproject.toml", "by its directory"},
		"project script":         {"setup.py", "by its directory"},
		"no file":                {"-r nothing.txt", "there is no " + ws + "/nothing.txt; relative paths start in the workspace"},
		"no file, full path":     {"-r /no/such/file", "there is no /no/such/file"},
		"no bounds":              {"a -c nothing.txt", "there is no " + ws + "/nothing.txt"},
		"no path":                {"./nothing", "there is no " + ws + "/nothing; relative paths start in the workspace"},
		"no path with extras":    {"./nothing[x]", "there is no " + ws + "/nothing; relative"},
		"no wheel":               {"b.whl", "there is no " + ws + "/b.whl"},
		"no named path":          {"b @ ./b", "there is no " + ws + "/b"},
		"no editable":            {"-e ./b", "there is no " + ws + "/b"},
		"a path behind a file":   {"./a.whl/b", "can't be used: not a directory"},
		"a long path":            {"./" + strings.Repeat("x", 5000), "can't be used: file name too long"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := Parse(tt.text, in)
			if err == nil || !strings.HasPrefix(err.Error(), "requirement ") || !strings.Contains(err.Error(), tt.want) || len(err.Error()) > 800 {
				t.Errorf("%+v, %v\nwant a refusal with %q", got, err, tt.want)
			}
		})
	}
}

// Whatever the text, only -r, -c and -e become options of the installer, and no part of the text is
// lost.
func FuzzArguments(f *testing.F) {
	for _, text := range []string{
		`requests>=2,<3 'numpy; python_version>"3.9"' flask[async]`,
		"a (>=1, <2); (os_name == 'nt' or \"x\" in sys_platform) and extra != 'y', b",
		"-r x", "a --b", "https://x", "./a", "a; rm -rf /", "a && b", "$(id)", "`id`", "a.whl", "a @ b", "a\x00", "a\nb", `"a"b`,
		"-c x -e './a b' --requirement=-y", "a @ git+https://h/x@-r ; os_name == 'x'", "'/a b;c ; extra==\"x\"'", "-r -r -r", "./-r",
	} {
		f.Add(text)
	}
	const dropped = " \t\r\n,\"'=" // separators, quotes, and the sign between an option and its path
	letters := func(s string) string {
		return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune(dropped, r) }), "")
	}
	f.Fuzz(func(t *testing.T, text string) {
		items, err := split(text)
		if err != nil {
			if said := err.Error(); items != nil || len(said) > 800 || !utf8.ValidString(said) {
				t.Errorf("both %q and %q", items, said)
			}
			return
		}
		in := Places{Workspace: t.TempDir()}
		var kept string
		for _, it := range items {
			kept += it.text
			checkItem(t, in, it)
		}
		if all := letters(text); !strings.Contains(all, "-") && utf8.ValidString(text) && letters(kept) != all {
			t.Errorf("split(%q) = %q, which lacks some of it", text, items)
		}
	})
}

func checkItem(t *testing.T, in Places, it item) {
	if it.text == "" || strings.ContainsFunc(it.text, func(r rune) bool { return unicode.IsControl(r) && r != '\t' }) {
		t.Errorf("split lets %q through", it.text)
	}
	arg, err := in.argument(it)
	if err == nil && strings.HasPrefix(arg, "-") && (it.option == "" || !strings.HasPrefix(arg, it.option+"=")) {
		t.Errorf("%q becomes the option %q", it, arg)
	}
}
