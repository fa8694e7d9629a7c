package pkgmgr

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestParseRequirements(t *testing.T) {
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
		"as in a requirements' table": {`requests>=2,<3 'numpy; python_version>"3.9"' flask[async]`, []string{"requests>=2,<3", `numpy; python_version > "3.9"`, "flask[async]"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := ParseRequirements(tt.text)
			if err != nil {
				t.Fatalf("ParseRequirements(%q): %v", tt.text, err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("ParseRequirements(%q): -want +got\n%s", tt.text, diff)
			}
		})
	}
}

func TestParseRequirementsRefuses(t *testing.T) {
	tests := map[string]struct{ text, want string }{ // want: a part of the reason
		"nothing":                {"", "empty"},
		"separators only":        {" ,\n", "empty"},
		"short option":           {"-r requirements.txt", "looks like an option"},
		"long option":            {"requests --index-url=https://example.org", "looks like an option"},
		"option in quotes":       {`"--upgrade" requests`, "looks like an option"},
		"option, quoted twice":   {`'"-e"'`, "looks like an option"},
		"dash":                   {"-", "looks like an option"},
		"editable":               {"-e .", "looks like an option"},
		"address":                {"https://example.org/a.whl", "looks like an address"},
		"address of a repo":      {"git+ssh://git@example.org/a", "looks like an address"},
		"repo without slashes":   {"git+foo", "looks like an address"},
		"file address":           {"file:///a.whl", "looks like an address"},
		"direct reference":       {"a @ https://example.org/a.whl", "@ is not taken"},
		"version by @":           {"a@1.2", "pin a version with =="},
		"dot":                    {".", "looks like a path"},
		"relative path":          {"./a", "looks like a path"},
		"path of the parent":     {"../a", "looks like a path"},
		"path":                   {"a/b", "looks like a path"},
		"absolute path":          {"/etc/passwd", "looks like a path"},
		"path of the home":       {"~/a", "looks like a path"},
		"path of Windows":        {`C:\a`, "looks like a path"},
		"path with backslash":    {`a\b`, "looks like a path"},
		"wheel":                  {"a-1.0-py3-none-any.whl", "looks like a file"},
		"wheel with extras":      {"a.whl[b]", "looks like a file"},
		"archive":                {"A.TAR.GZ", "looks like a file"},
		"requirements file":      {"requirements.txt", "looks like a file"},
		"command line":           {"pip install requests", "leave the words of the command line out"},
		"semicolon":              {"a; rm -rf x", "nothing is given to a shell"},
		"semicolon alone":        {"a;", "after ; stands a marker"},
		"and":                    {"a && b", "nothing is given to a shell"},
		"background":             {"a&", "nothing is given to a shell"},
		"pipe":                   {"a | sh", "nothing is given to a shell"},
		"redirection":            {"a > out.log", "not a version"},
		"redirection to a path":  {"a >/dev/null", "looks like a path"},
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
			got, err := ParseRequirements(tt.text)
			var refused *RequirementError
			if !errors.As(err, &refused) {
				t.Fatalf("ParseRequirements(%q) = %q, %v; want a refusal", clip(tt.text), got, err)
			}
			if !strings.Contains(refused.Reason, tt.want) {
				t.Errorf("ParseRequirements(%q): %v\nwant a reason with %q", clip(tt.text), err, tt.want)
			}
			if len(err.Error()) > 700 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
}

// What may reach an installer, said apart from the parser: a name, then at most
// extras, versions and a marker, of characters that neither a shell nor an
// installer's command line acts upon.
var harmless = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?` +
	`(\[[A-Za-z0-9._,-]+\])?` +
	`((~=|==|!=|<=|>=|<|>|===)[A-Za-z0-9.!+*_-]+(,(~=|==|!=|<=|>=|<|>|===)[A-Za-z0-9.!+*_-]+)*)?` +
	`(; [A-Za-z0-9 ._+*!,:/#~"()<>=-]+)?$`)

func FuzzParseRequirements(f *testing.F) {
	for _, text := range []string{
		`requests>=2,<3 'numpy; python_version>"3.9"' flask[async]`,
		"a (>=1, <2); (os_name == 'nt' or \"x\" in sys_platform) and extra != 'y', b",
		"-r x", "a --b", "https://x", "./a", "a; rm -rf /", "a && b", "$(id)", "`id`", "a.whl", "a @ b", "a\x00", "a\nb", `"a"b`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		reqs, err := ParseRequirements(text)
		if err != nil {
			if reqs != nil {
				t.Errorf("both %q and %v", reqs, err)
			}
			if told := err.Error(); len(told) > 700 || !utf8.ValidString(told) {
				t.Errorf("told in %d bytes: %q", len(told), told)
			}
			return
		}
		for _, r := range reqs {
			if !harmless.MatchString(r) {
				t.Errorf("ParseRequirements(%q) let %q through", text, r)
			}
			again, err := ParseRequirements(r)
			if err != nil || len(again) != 1 || again[0] != r {
				t.Errorf("%q is read again as %q, %v", r, again, err)
			}
		}
		if again, err := ParseRequirements(strings.Join(reqs, "\n")); err != nil || !slices.Equal(reqs, again) {
			t.Errorf("%q are read again as %q, %v", reqs, again, err)
		}
	})
}
