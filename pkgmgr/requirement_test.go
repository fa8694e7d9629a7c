package pkgmgr

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// spelled is each item in the one spelling.
func spelled(items []item) (all []string) {
	for _, it := range items {
		all = append(all, it.String())
	}
	return all
}

func TestParse(t *testing.T) {
	tests := map[string]struct {
		text string
		want []string
	}{
		"one name":                    {"requests", []string{"requests"}},
		"names by blanks":             {"  requests   flask ", []string{"requests", "flask"}},
		"names by commas":             {"requests, flask,numpy", []string{"requests", "flask", "numpy"}},
		"names by lines":              {"requests\r\nflask\n\nnumpy\n", []string{"requests", "flask", "numpy"}},
		"all characters of a name":    {"A0._-z", []string{"A0._-z"}},
		"name of one digit and more":  {"3to2", []string{"3to2"}},
		"name like a module file":     {"discord.py web.py", []string{"discord.py", "web.py"}},
		"pin":                         {"requests==2.32.0", []string{"requests==2.32.0"}},
		"range":                       {"requests>=2,<3", []string{"requests>=2,<3"}},
		"range, then a name":          {"requests>=2,<3,numpy", []string{"requests>=2,<3", "numpy"}},
		"range with blanks":           {"requests >= 2 , < 3 , numpy", []string{"requests>=2,<3", "numpy"}},
		"comma at the end":            {"a>=1,", []string{"a>=1"}},
		"range in parentheses":        {"requests (>=2, <3) numpy", []string{"requests>=2,<3", "numpy"}},
		"every operator":              {"a~=1.2 b==1 c!=1 d<=1 e>=1 f<1 g>1 h===1-x", []string{"a~=1.2", "b==1", "c!=1", "d<=1", "e>=1", "f<1", "g>1", "h===1-x"}},
		"any patch":                   {"a==1.2.* b!=2.*", []string{"a==1.2.*", "b!=2.*"}},
		"versions of all kinds":       {"a==1!2.0rc1.post2.dev3+cu118.x b==v1.0-1 c>=2024.1.0a", []string{"a==1!2.0rc1.post2.dev3+cu118.x", "b==v1.0-1", "c>=2024.1.0a"}},
		"extras":                      {"flask[async] uvicorn [ standard , b ]>=1 x[]", []string{"flask[async]", "uvicorn[standard,b]>=1", "x"}},
		"marker":                      {`numpy; python_version>"3.9"`, []string{`numpy; python_version > "3.9"`}},
		"marker, then a name":         {`numpy;python_version>'3.9' flask`, []string{`numpy; python_version > "3.9"`, "flask"}},
		"marker with all there is":    {`a>1 ; (os_name=='nt' or "linux" in sys_platform)and platform_machine not  in "x86_64 arm64", b`, []string{`a>1; (os_name == "nt" or "linux" in sys_platform) and platform_machine not in "x86_64 arm64"`, "b"}},
		"quotes":                      {`'numpy; python_version>"3.9"' "a; os_name == 'posix'","b"`, []string{`numpy; python_version > "3.9"`, `a; os_name == "posix"`, "b"}},
		"quotes and blanks":           {`" a >= 1 "`, []string{"a>=1"}},
		"address":                     {"https://example.org/a-1.0.whl?x=1#sha256=2", []string{"https://example.org/a-1.0.whl?x=1#sha256=2"}},
		"addresses and names":         {"a, http://h/a.whl, git+ssh://git@h/x.git@v1#egg=x b", []string{"a", "http://h/a.whl", "git+ssh://git@h/x.git@v1#egg=x", "b"}},
		"named address":               {"a[b] @ https://h/a.whl", []string{"a[b] @ https://h/a.whl"}},
		"named address, no blanks":    {"a@https://h/a.whl", []string{"a @ https://h/a.whl"}},
		"named path":                  {"a @ ./a", []string{"a @ ./a"}},
		"paths":                       {". .. ./a ../b /c/d ~/e f/g", []string{".", "..", "./a", "../b", "/c/d", "~/e", "f/g"}},
		"path with extras":            {".[dev] ./a[b,c]", []string{".[dev]", "./a[b,c]"}},
		"path with blanks":            {`'./my project' "/a b/c.whl"`, []string{"./my project", "/a b/c.whl"}},
		"wheel and archives":          {"a-1.0-py3-none-any.whl b-1.tar.gz C.ZIP d.whl[e]", []string{"a-1.0-py3-none-any.whl", "b-1.tar.gz", "C.ZIP", "d.whl[e]"}},
		"place with a marker":         {`./a ; os_name=="nt" ./b; os_name=="nt" 'https://h/a b.whl; os_name=="x"' c`, []string{`./a ; os_name == "nt"`, `./b ; os_name == "nt"`, `https://h/a b.whl ; os_name == "x"`, "c"}},
		"named place with a marker":   {`a @ ./a ; os_name=="nt"`, []string{`a @ ./a ; os_name == "nt"`}},
		"file with requirements":      {"-r requirements.txt", []string{"--requirement=requirements.txt"}},
		"options in all spellings":    {`-r a.txt --requirement=b.txt -c 'c d.txt' --constraint "e.txt", -e . --editable ./f[g]`, []string{"--requirement=a.txt", "--requirement=b.txt", "--constraint=c d.txt", "--constraint=e.txt", "--editable=.", "--editable=./f[g]"}},
		"everything at once":          {"requests>=2,<3, -r a.txt ./b git+https://h/c", []string{"requests>=2,<3", "--requirement=a.txt", "./b", "git+https://h/c"}},
		"as in a requirements' table": {`requests>=2,<3 'numpy; python_version>"3.9"' flask[async]`, []string{"requests>=2,<3", `numpy; python_version > "3.9"`, "flask[async]"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			items, err := parse(tt.text)
			if err != nil {
				t.Fatalf("parse(%q): %v", tt.text, err)
			}
			if diff := cmp.Diff(tt.want, spelled(items)); diff != "" {
				t.Errorf("parse(%q): -want +got\n%s", tt.text, diff)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	tests := map[string]struct{ text, want string }{ // want: a part of the reason
		"nothing":                {"", "nothing to install"},
		"separators only":        {" ,\n", "nothing to install"},
		"long option":            {"requests --index-url=https://example.org", "looks like an option"},
		"option in quotes":       {`"--upgrade" requests`, "looks like an option"},
		"option, quoted twice":   {`'"-e"'`, "looks like an option"},
		"dash":                   {"-", "looks like an option"},
		"version by @":           {"a@1.2", "pin a version with =="},
		"other option":           {"-U requests", "only -r FILE, -c FILE and -e DIRECTORY are taken; for a newer version"},
		"option, no path":        {"-r", "takes the path that follows it, such as -r requirements.txt"},
		"option, no directory":   {"-e", "takes the path that follows it, such as -e ./project"},
		"option, path next line": {"-r\nx", "takes the path that follows"},
		"option run together":    {"-rx", "looks like an option"},
		"option within quotes":   {`"-r x"`, "looks like an option"},
		"option for a path":      {"a @ -x", "stands an address or a path"},
		"bounds alone":           {"-c x", "names nothing to install"},
		"path not closed":        {"'./a", "ends too early"},
		"path with NUL":          {"./a\x00b", "can't stand in an address or a path"},
		"project file":           {"pyproject.toml", "by its directory"},
		"project script":         {"setup.py", "by its directory"},
		"egg":                    {"a-1.0.egg", "eggs"},
		"path of Windows":        {`C:\a`, "a path or an address stands on its own"},
		"path with backslash":    {`a\b`, "looks like a path"},
		"requirements file":      {"requirements.txt", "write -r requirements.txt"},
		"command line":           {"pip install requests", "leave the words of the command line out"},
		"semicolon":              {"a; rm -rf x", "nothing is given to a shell"},
		"semicolon alone":        {"a;", "after ; stands a marker"},
		"and":                    {"a && b", "nothing is given to a shell"},
		"background":             {"a&", "nothing is given to a shell"},
		"pipe":                   {"a | sh", "nothing is given to a shell"},
		"redirection":            {"a > out.log", "not a version"},
		"redirection to a path":  {"a >/dev/null", "stands on its own"},
		"substitution":           {"$(id)", "nothing is given to a shell"},
		"substitution in name":   {"a$(id)", "nothing is given to a shell"},
		"variable":               {"a==$V", "nothing is given to a shell"},
		"backticks":              {"`id`", "nothing is given to a shell"},
		"substitution in marker": {`a; os_name == "$(id)"`, "nothing is given to a shell"},
		"backticks in marker":    {"a; os_name == '`id`'", "nothing is given to a shell"},
		"glob":                   {"*", "nothing is given to a shell"},
		"braces":                 {"{a,b}", "nothing is given to a shell"},
		"comment":                {"a # why", "comments are not taken"},
		"one equals sign":        {"a=1", "pin with =="},
		"no such operator":       {"a=>1", "not an operator"},
		"operator doubled":       {"a>==1", "not an operator"},
		"version on its own":     {"a 1.2", "looks like a version"},
		"version missing":        {"a==", "ends too early"},
		"version of letters":     {"a==latest", "not a version"},
		"star after a range":     {"a>=1.*", "only == and != do"},
		"star after ===":         {"a===1.*", "without *"},
		"star on its own":        {"a==*", "not a version"},
		"extras not closed":      {"a[b", "ends too early"},
		"extras without comma":   {"a[b c]", "can't stand here"},
		"extra like an option":   {"a[--b]", "can't stand here"},
		"parentheses not closed": {"a (>=1", "ends too early"},
		"parentheses empty":      {"a ()", "can't stand here"},
		"name that ends badly":   {"a- b", "can't stand here"},
		"name over two lines":    {"a\n>=1", "can't stand here"},
		"quote not closed":       {`"a`, "ends too early"},
		"quote within":           {`a"b"`, "can't stand here"},
		"two in quotes":          {`"a b"`, "can't stand here"},
		"empty quotes":           {`""`, "can't stand here"},
		"same quotes in marker":  {`"a; os_name == "nt""`, "quotes of the other kind"},
		"marker of two values":   {`a; "x" == "y"`, "compares two values"},
		"marker of its own":      {`a; shell == "y"`, "none of its variables"},
		"marker without sign":    {`a; os_name "y"`, "can't stand here"},
		"marker with odd sign":   {`a; os_name => "y"`, "no operator"},
		"marker not closed":      {`a; (os_name == "y"`, "ends too early"},
		"marker value not done":  {`a; os_name == "y`, "ends too early"},
		"marker ends with and":   {`a; os_name == "y" and`, "none of its variables"},
		"marker very deep":       {"a; " + strings.Repeat("(", 100), "too many parentheses"},
		"not ASCII":              {"réquests", "'é' can't stand here"},
		"NUL":                    {"a\x00b", `'\x00' can't stand here`},
		"not UTF-8":              {"a\xffb", "can't stand here"},
		"version very long":      {"a==" + strings.Repeat("b", 9000), "not a version"},
		"range very long":        {"a>=" + strings.Repeat("1.", 9000) + "*", "only == and != do"},
		"operator very long":     {"a" + strings.Repeat("=", 9000) + "1", "not an operator"},
		"marker sign very long":  {`a; os_name ` + strings.Repeat("=", 9000) + ` "y"`, "no operator"},
		"very long":              {strings.Repeat("a ", maxText), "several calls"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := parse(tt.text)
			var refused *RequirementError
			if !errors.As(err, &refused) {
				t.Fatalf("parse(%q) = %q, %v; want a refusal", clip(tt.text), got, err)
			}
			if !strings.Contains(refused.Reason, tt.want) {
				t.Errorf("parse(%q): %v\nwant a reason with %q", clip(tt.text), err, tt.want)
			}
			if len(err.Error()) > 700 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
}

// What may reach an installer by name, said apart from the parser: a name, then
// at most extras, versions and a marker, of characters that neither a shell nor
// an installer's command line acts upon.
var harmless = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?` +
	`(\[[A-Za-z0-9._,-]+\])?` +
	`((~=|==|!=|<=|>=|<|>|===)[A-Za-z0-9.!+*_-]+(,(~=|==|!=|<=|>=|<|>|===)[A-Za-z0-9.!+*_-]+)*)?` +
	`(; [A-Za-z0-9 ._+*!,:/#~"()<>=-]+)?$`)

func FuzzParse(f *testing.F) {
	for _, text := range []string{
		`requests>=2,<3 'numpy; python_version>"3.9"' flask[async]`,
		"a (>=1, <2); (os_name == 'nt' or \"x\" in sys_platform) and extra != 'y', b",
		"-r x", "a --b", "https://x", "./a", "a; rm -rf /", "a && b", "$(id)", "`id`", "a.whl", "a @ b", "a\x00", "a\nb", `"a"b`,
		"-c x -e './a b' --requirement=-y", "a @ git+https://h/x@-r ; os_name == 'x'", "'/a b;c ; extra==\"x\"'", "-r -r -r", "./-r",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		items, err := parse(text)
		if err != nil {
			if items != nil {
				t.Errorf("both %q and %v", items, err)
			}
			if told := err.Error(); len(told) > 700 || !utf8.ValidString(told) {
				t.Errorf("told in %d bytes: %q", len(told), told)
			}
			return
		}
		m := New(Config{Workspace: t.TempDir()})
		for _, it := range items {
			if strings.ContainsFunc(it.place, unicode.IsControl) {
				t.Errorf("parse(%q) let %q through", text, it.place)
			}
			arg, err := m.argument(it)
			switch {
			case it.place == "" && !harmless.MatchString(arg):
				t.Errorf("parse(%q) let %q through", text, arg)
			case err == nil && it.option == "" && strings.HasPrefix(arg, "-"):
				t.Errorf("%q becomes the option %q", text, arg)
			case err == nil && it.option != "" && !regexp.MustCompile(`^--(requirement|constraint|editable)=(/|file:///|https?://)`).MatchString(arg):
				t.Errorf("%q becomes the option %q", text, arg)
			}
			if it.place != "" {
				continue // may need its quotes
			}
			again, err := parse(arg)
			if err != nil || len(again) != 1 || again[0].String() != arg {
				t.Errorf("%q is read again as %q, %v", arg, again, err)
			}
		}
		if !slices.ContainsFunc(items, func(it item) bool { return it.place != "" }) {
			if again, err := parse(strings.Join(spelled(items), "\n")); err != nil || !slices.Equal(items, again) {
				t.Errorf("%q are read again as %q, %v", items, again, err)
			}
		}
	})
}
