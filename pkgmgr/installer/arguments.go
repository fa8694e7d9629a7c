package installer

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"asyncrepl/internal/text/pattern"
)

// The text of an install is cut into items, and each item is one argument of the installer. An item
// ends at a blank, a comma or the end of its line, except
//
//   - in the quotes around it and in brackets: flask[async, dotenv],
//   - before and after a version operator: "requests >= 2, < 3",
//   - after a ";", which begins a marker, and after "name @", which begins an address: both keep
//     the rest of their line.

// maxText bounds the text of one install, in bytes. People and models write far less.
const maxText = 64 << 10

// Remedies that several refusals share.
const (
	byExample = `give requirements such as requests>=2,<3, addresses, paths, or -r FILE`
	noOption  = `it looks like an option, and only -r FILE, -c FILE and -e DIRECTORY are taken; for a newer version ask for it (requests>=2.32), ` +
		`for an index set PIP_INDEX_URL and UV_DEFAULT_INDEX or write it into a file for -r, for other options run the installer as a shell command`
)

// options are the accepted options, each with an example of the path that follows it.
var options = map[string]struct{ long, example string }{
	"-r": {"--requirement", "requirements.txt"}, "--requirement": {"--requirement", "requirements.txt"},
	"-c": {"--constraint", "constraints.txt"}, "--constraint": {"--constraint", "constraints.txt"},
	"-e": {"--editable", "./project"}, "--editable": {"--editable", "./project"},
}

// Places are where the paths in a text start.
type Places struct {
	Workspace string // an absolute path
	Home      string // replaces "~"; empty: "~" is a name like any other
}

// Arguments are the arguments of an installer for one install.
type Arguments struct {
	Options  []string // --option=path
	Packages []string // requirements, addresses and paths
	Asked    []string // the keys of the packages that were asked for by name

	// Marked reports whether a requirement has a marker, which can rule it out: an install that
	// changes nothing need not mean that everything was there.
	Marked bool
}

// Parse cuts a text into requirements, addresses, paths and files with requirements. Its error says
// which part of the text can't be an argument of the installer.
func Parse(text string, in Places) (args Arguments, err error) {
	items, err := split(text)
	if err != nil {
		return Arguments{}, err
	}
	for _, it := range items {
		arg, err := in.argument(it)
		if err != nil {
			return Arguments{}, err
		}
		if it.option != "" {
			args.Options = append(args.Options, arg)
			continue
		}
		args.Packages = append(args.Packages, arg)
		args.Asked = append(args.Asked, Key(leadingName().FindString(arg)))
		_, marker := cutMarker(it.text)
		args.Marked = args.Marked || marker != ""
	}
	return args, nil
}

// Line returns the arguments as they follow the command of an installer.
func (a Arguments) Line() []string {
	if len(a.Packages) == 0 {
		return a.Options
	}
	return slices.Concat(a.Options, []string{"--"}, a.Packages)
}

var (
	leadingName = pattern.Lazy(`^[A-Za-z0-9._-]+`)
	separators  = pattern.Lazy(`[-_.]+`)
)

// Key returns a package's name in the form in which names are compared.
func Key(name string) string { return strings.ToLower(separators().ReplaceAllString(name, "-")) }

// An item is one thing to install, or an option with the file or the directory that it takes.
type item struct{ option, text string }

// refused returns the error about a refused part of a text. It shortens both arguments.
func refused(text, reason string) error {
	return fmt.Errorf("requirement %q refused: %s", clip(text, 80), clip(reason, 600))
}

// clip shortens a text for an error.
func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// split cuts a text into items.
func split(text string) ([]item, error) {
	control := func(r rune) bool { return unicode.IsControl(r) && !strings.ContainsRune("\t\r\n", r) }
	switch {
	case len(text) > maxText:
		return nil, refused(text, fmt.Sprintf("longer than %d bytes; install in several calls", maxText))
	case strings.ContainsFunc(text, control):
		return nil, refused(text, "it contains a control character; "+byExample)
	}
	var items []item
	for line := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == '\n' || r == '\r' }) {
		for line = strings.TrimLeft(line, blanksAndCommas); line != ""; {
			it, rest, err := nextItem(line)
			if err != nil {
				return nil, err
			}
			items = append(items, it)
			line = strings.TrimLeft(rest, blanksAndCommas)
		}
	}
	if len(items) == 0 {
		return nil, refused(text, "it names nothing to install; "+byExample)
	}
	return items, nil
}

const blanksAndCommas = " \t,"

// nextItem returns the first item of a line that begins with one, and the rest of the line.
func nextItem(line string) (it item, rest string, err error) {
	if line[0] == '-' {
		word := line
		if i := strings.IndexAny(line, blanksAndCommas+"="); i >= 0 {
			word = line[:i]
		}
		option, ok := options[word]
		if !ok {
			return it, "", refused(word, noOption)
		}
		it.option = option.long
		if line = strings.TrimLeft(strings.TrimPrefix(line[len(word):], "="), blanksAndCommas); line == "" {
			return it, "", refused(word, word+" takes the path that follows it, such as "+word+" "+option.example)
		}
	}
	if quote := line[0]; quote == '\'' || quote == '"' {
		text, rest, closed := strings.Cut(line[1:], line[:1])
		if it.text = strings.Trim(text, blanksAndCommas); !closed || it.text == "" {
			return it, "", refused(line, "its quotes are not closed, or empty; "+byExample)
		}
		line = rest
	} else {
		end := itemEnd(line)
		it.text, line = strings.TrimRight(line[:end], blanksAndCommas), line[end:]
	}
	if it.text[0] == '-' && it.option == "" {
		return it, "", refused(it.text, noOption)
	}
	return it, line, nil
}

// itemEnd returns the end of the item with which a line begins. The item is not in quotes.
func itemEnd(line string) int {
	for end := wordEnd(line); ; {
		if keepsLine(line, end) {
			return len(line)
		}
		next := strings.TrimLeft(line[end:], blanksAndCommas)
		start := len(line) - len(next)
		if next == "" || !continues(line[:end], line[end:start], next) {
			return end
		}
		end = start + wordEnd(next)
	}
}

// wordEnd returns the index of the first blank or comma in s that is not in brackets.
func wordEnd(s string) int {
	depth := 0
	for i := range len(s) {
		switch c := s[i]; {
		case c == '[' || c == '(':
			depth++
		case c == ']' || c == ')':
			depth--
		case depth <= 0 && strings.IndexByte(blanksAndCommas, c) >= 0:
			return i
		}
	}
	return len(s)
}

// keepsLine reports whether the item line[:end] has the rest of its line, because a marker or the
// address of a named package has begun.
func keepsLine(line string, end int) bool {
	for i := range end {
		if line[i] == ';' && beginsMarker(line, i) || line[i] == '@' && beforeAt().MatchString(line[:i]) {
			return true
		}
	}
	return false
}

var (
	beforeAt = pattern.Lazy(`^[\w.-]+\s*(\[[^\]]*\])?\s*$`) // a name and its extras
	operator = pattern.Lazy(`^([<>=]|[~!]=)`)
)

// continues reports whether an item continues with the word after a gap of blanks and commas.
func continues(item, gap, word string) bool {
	comma := strings.Contains(gap, ",")
	switch {
	case isPlace(item): // only a marker follows it
		return word[0] == ';' && !comma
	case operator().MatchString(word): // the next version of a range
		return true
	case comma:
		return false
	}
	afterOperator := strings.IndexByte("<>=", item[len(item)-1]) >= 0
	return afterOperator || strings.IndexByte(";[(@", word[0]) >= 0
}

// beginsMarker reports whether the semicolon at i begins a marker. In an address or a path, it does
// so only beside a blank.
func beginsMarker(item string, i int) bool {
	return !isPlace(item[:i]) || strings.HasSuffix(item[:i], " ") || strings.HasPrefix(item[i+1:], " ")
}

// cutMarker cuts the marker, with its semicolon, off an item.
func cutMarker(item string) (what, marker string) {
	for i := range len(item) {
		if item[i] == ';' && beginsMarker(item, i) {
			return strings.TrimRight(item[:i], " \t"), " " + item[i:]
		}
	}
	return item, ""
}

// archives are the endings of the file names of wheels and source archives.
var archives = []string{".whl", ".zip", ".tar.gz", ".tgz", ".tar.bz2", ".tbz", ".tar.xz", ".txz", ".tar"}

// isPlace reports whether an item is an address or a path, and not a name.
func isPlace(s string) bool {
	s, _, _ = strings.Cut(s, "[")
	return strings.ContainsAny(s, "/:") || s != "" && (s[0] == '.' || s[0] == '~') ||
		slices.ContainsFunc(archives, func(end string) bool { return strings.HasSuffix(strings.ToLower(s), end) })
}

// argument returns an item as the installer reads it.
func (in Places) argument(it item) (string, error) {
	switch it.option {
	case "--requirement", "--constraint":
		path, err := it.text, error(nil)
		if !strings.Contains(it.text, "://") {
			path, err = in.existing(it.text)
		}
		return it.option + "=" + path, err
	case "--editable":
		place, err := in.resolve(it.text)
		return it.option + "=" + place, err
	}
	what, marker := cutMarker(it.text)
	if before, after, ok := strings.Cut(what, "@"); ok && beforeAt().MatchString(before) {
		place, err := in.resolve(strings.TrimSpace(after))
		return strings.TrimSpace(before) + " @ " + place + marker, err
	}
	switch name := strings.ToLower(what); {
	case isPlace(what):
		place, err := in.resolve(what)
		return place + marker, err
	case name == "install":
		return "", refused(what, `leave the words of the command line out, "pip install" too; `+byExample)
	case strings.HasSuffix(name, ".txt") || strings.HasSuffix(name, ".in"):
		return "", refused(what, "it looks like a file with requirements; write -r "+what)
	case strings.HasSuffix(name, ".toml") || strings.HasSuffix(name, ".cfg") || name == "setup.py":
		return "", refused(what, "it looks like a file of a project; install the project by its directory, such as . or ./project")
	}
	return it.text, nil
}

var pathExtras = pattern.Lazy(`^(.*[^/])(\[[^\[\]]*\])$`)

// resolve returns an address or a path as the installer reads it. A path becomes an address: pip
// and uv disagree about blanks, brackets and semicolons in paths, but not in addresses. A path with
// extras after it remains a path.
func (in Places) resolve(place string) (string, error) {
	if !isPlace(place) || address().MatchString(place) {
		return place, nil
	}
	path, err := in.existing(place)
	if parts := pathExtras().FindStringSubmatch(place); err != nil && parts != nil {
		path, err = in.existing(parts[1])
		return path + parts[2], err
	}
	return (&url.URL{Scheme: "file", Path: path}).String(), err
}

var address = pattern.Lazy(`^(?i)([a-z][a-z0-9+.-]*://|file:)`)

// existing returns the absolute path of an existing file or directory.
func (in Places) existing(place string) (string, error) {
	path := place
	if rest, ok := strings.CutPrefix(path, "~"); ok && (rest == "" || rest[0] == '/') {
		if filepath.IsAbs(in.Home) {
			path = in.Home + rest
		}
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(in.Workspace, path)
	}
	path = filepath.Clean(path)
	_, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !filepath.IsAbs(place):
		return "", refused(place, "there is no "+path+"; relative paths start in the workspace")
	case errors.Is(err, fs.ErrNotExist):
		return "", refused(place, "there is no "+path)
	case err != nil:
		if pe, ok := errors.AsType[*fs.PathError](err); ok {
			err = pe.Err // the message names the path already
		}
		return "", refused(place, fmt.Sprintf("%s can't be used: %v", clip(path, 300), err))
	}
	return path, nil
}
