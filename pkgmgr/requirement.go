package pkgmgr

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// The grammar of a text with requirements: PEP 508, and pip's paths and files.
// Blanks may stand between all parts but those of a name, a version or a place;
// the end of a line ends an item.
//
//	text        = [ item { sep item } ]           sep: blanks, line ends, commas
//	item        = requirement | "'" requirement "'" | '"' requirement '"' | option
//	requirement = ( name [ extras ] [ versions ] | [ name [ extras ] "@" ] place ) [ ";" marker ]
//	option      = ( "-r" | "-c" | "-e" | their long forms ) ( blanks | "=" ) place, in quotes or not
//	extras      = "[" [ name { "," name } ] "]"
//	versions    = clauses | "(" clauses ")"       clauses: clause { "," clause }
//	clause      = ( "~=" | "==" | "!=" | "<=" | ">=" | "<" | ">" | "===" ) version
//	place       = an address or a path, as source.go has it
//	marker      = as in PEP 508, with the values that inMarkerValue allows
//
// A comma belongs to the versions if an operator follows it, else it separates:
// "requests>=2,<3, numpy" is two requirements. A marker ends where neither
// "and" nor "or" follows, so it needs no quotes around its requirement, though
// it may have them; inside, its values then stand in quotes of the other kind.
// A place ends with the next blank, in quotes with their end; a blank stands
// beside the ";" after it.

// Bounds on what is parsed, far above what a person or a model writes.
const (
	maxText   = 64 << 10
	maxNested = 32 // parentheses in a marker
)

// A RequirementError says why a text was not taken as requirements.
type RequirementError struct {
	Text   string // the part that was refused
	Reason string // why, and what to do instead
}

func (e *RequirementError) Error() string {
	return fmt.Sprintf("requirement %q refused: %s", e.Text, e.Reason)
}

// Remedies that several refusals share.
const (
	byExample = `give requirements such as requests>=2,<3, addresses, paths, or -r FILE`
	byCommand = `for other options run the installer as a shell command`
)

// An item is one thing to install, or a file that names some.
type item struct {
	option   string // "requirement", "constraint" or "editable"; empty: none
	name     string // with extras; empty where a place tells it
	versions string
	place    string // an address or a path, as it was written
	marker   string
}

func (it item) String() string {
	s := it.name + it.versions
	switch {
	case it.option != "":
		return "--" + it.option + "=" + it.place
	case it.place != "" && s != "":
		s += " @ " + it.place
	case it.place != "":
		s = it.place
	}
	if it.marker != "" && it.place != "" {
		s += " "
	}
	if it.marker != "" {
		s += "; " + it.marker
	}
	return s
}

// parse takes a text with one or several items apart. What it can't read is
// refused with a *RequirementError.
func parse(text string) ([]item, error) {
	if len(text) > maxText {
		return nil, &RequirementError{clip(text), fmt.Sprintf("longer than %d bytes; install in several calls", maxText)}
	}
	p := &parser{text: text}
	var items []item
	for {
		p.skip(" \t\r\n,")
		if p.pos == len(text) {
			break
		}
		it, err := p.item()
		if err != nil {
			return nil, err
		}
		items = append(items, it)
	}
	if !slices.ContainsFunc(items, func(it item) bool { return it.option != "constraint" }) {
		return nil, &RequirementError{clip(text), "it names nothing to install; " + byExample}
	}
	return items, nil
}

// A parser reads one text from left to right.
type parser struct {
	text  string
	pos   int
	start int  // where the present item begins
	quote byte // the quote around the present item, or 0
}

// peek returns the next byte, 0 at the end.
func (p *parser) peek() byte {
	if p.pos == len(p.text) {
		return 0
	}
	return p.text[p.pos]
}

// skip passes over the bytes of set.
func (p *parser) skip(set string) {
	for p.pos < len(p.text) && strings.IndexByte(set, p.text[p.pos]) >= 0 {
		p.pos++
	}
}

func (p *parser) blanks() { p.skip(" \t") }

// run takes the longest run of bytes that in allows.
func (p *parser) run(in func(byte) bool) string {
	from := p.pos
	for p.pos < len(p.text) && in(p.text[p.pos]) {
		p.pos++
	}
	return p.text[from:p.pos]
}

// item takes one item and the quotes around it.
func (p *parser) item() (it item, err error) {
	p.start, p.quote = p.pos, 0
	if p.peek() == '-' {
		it, err = p.option()
	} else {
		p.open()
		it, err = p.requirement()
	}
	if err != nil {
		return item{}, err
	}
	if p.quote != 0 {
		p.blanks()
		if p.peek() != p.quote {
			return item{}, p.refuse()
		}
		p.pos++
	}
	if p.pos < len(p.text) && strings.IndexByte(" \t\r\n,", p.peek()) < 0 {
		return item{}, p.refuse()
	}
	return it, nil
}

// open passes over the quote that an item or a place may begin with.
func (p *parser) open() {
	if c := p.peek(); c == '\'' || c == '"' {
		p.quote = c
		p.pos++
		p.blanks()
	}
}

// requirement takes one requirement, without its quotes.
func (p *parser) requirement() (it item, err error) {
	if p.atPlace() {
		if it.place, err = p.place(); err != nil {
			return item{}, err
		}
	} else if it, err = p.named(); err != nil {
		return item{}, err
	}
	end := p.pos
	p.blanks()
	if p.peek() != ';' {
		p.pos = end // the blanks separate
		return it, nil
	}
	p.pos++
	it.marker, err = p.marker(0)
	return it, err
}

// named takes a name and the versions or the place that follow.
func (p *parser) named() (it item, err error) {
	name, err := p.name()
	if err != nil {
		return item{}, err
	}
	if err := p.checkName(name); err != nil {
		return item{}, err
	}
	extras, err := p.extras()
	if err != nil {
		return item{}, err
	}
	it.name = name + extras
	end := p.pos
	p.blanks()
	if p.peek() != '@' {
		p.pos = end
		it.versions, err = p.versions()
		return it, err
	}
	p.pos++
	p.blanks()
	if !p.atPlace() {
		return item{}, p.because("after @ stands an address or a path; pin a version with ==, such as requests==2.32.0")
	}
	it.place, err = p.place()
	return it, err
}

// options are those that are taken.
var options = map[string]string{
	"-r": "requirement", "--requirement": "requirement",
	"-c": "constraint", "--constraint": "constraint",
	"-e": "editable", "--editable": "editable",
}

// option takes an option and its place.
func (p *parser) option() (item, error) {
	word := p.run(inName)
	it := item{option: options[word]}
	if it.option == "" {
		return item{}, p.refuse()
	}
	switch {
	case p.peek() == '=':
		p.pos++
	case p.pos < len(p.text) && strings.IndexByte(" \t", p.peek()) >= 0:
		p.blanks()
	default:
		path := map[string]string{"requirement": "requirements.txt", "constraint": "constraints.txt", "editable": "./project"}[it.option]
		return item{}, p.because(word + " takes the path that follows it, such as " + word + " " + path)
	}
	p.open()
	var err error
	it.place, err = p.place()
	return it, err
}

// name takes the name of a package or of an extra.
func (p *parser) name() (string, error) {
	name := p.run(inName)
	if name == "" || !isAlnum(name[0]) || !isAlnum(name[len(name)-1]) {
		return "", p.refuse()
	}
	return name, nil
}

// checkName refuses names that are well formed and surely a mistake.
func (p *parser) checkName(name string) error {
	lower := strings.ToLower(name)
	switch ext := filepath.Ext(lower); {
	case ext == ".txt" || ext == ".in":
		return p.because("it looks like a file with requirements; write -r " + name)
	case ext == ".toml" || ext == ".cfg" || ext == ".lock" || lower == "setup.py":
		return p.because("it looks like a file of a project; install the project by its directory, such as . or ./project")
	case ext == ".egg":
		return p.because("eggs can't be installed; give a wheel, an sdist or a name")
	case lower == "install" || lower == "pip" && strings.HasPrefix(p.text[p.pos:], " install"):
		return p.because(`leave the words of the command line out, "pip install" too; ` + byExample)
	case !strings.ContainsFunc(name, func(r rune) bool { return r >= 'A' }):
		return p.because("it looks like a version; pin with ==, such as requests==2.32.0")
	}
	return nil
}

// extras takes [a,b] if it follows.
func (p *parser) extras() (string, error) {
	end := p.pos
	p.blanks()
	if p.peek() != '[' {
		p.pos = end
		return "", nil
	}
	p.pos++
	var names []string
	for p.blanks(); p.peek() != ']'; p.blanks() {
		if len(names) > 0 {
			if p.peek() != ',' {
				return "", p.refuse()
			}
			p.pos++
			p.blanks()
		}
		name, err := p.name()
		if err != nil {
			return "", err
		}
		names = append(names, name)
	}
	p.pos++
	if len(names) == 0 {
		return "", nil
	}
	return "[" + strings.Join(names, ",") + "]", nil
}

func isAlnum(c byte) bool {
	return '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z'
}

func isOperator(c byte) bool { return c == '<' || c == '>' || c == '=' || c == '!' || c == '~' }
func inName(c byte) bool     { return isAlnum(c) || c == '.' || c == '_' || c == '-' }
func inVersion(c byte) bool  { return inName(c) || c == '!' || c == '+' || c == '*' }

// because refuses the present item for a reason.
func (p *parser) because(reason string) error {
	return &RequirementError{p.word(), reason}
}

// refuse refuses the present item for what stands at the present position.
func (p *parser) refuse() error {
	c := p.peek()
	switch {
	case strings.HasPrefix(strings.TrimLeft(p.word(), `'"`), "-"):
		return p.because("it looks like an option, and only -r FILE, -c FILE and -e DIRECTORY are taken; for a newer version ask for it (requests>=2.32), " +
			"for an index set PIP_INDEX_URL and UV_DEFAULT_INDEX or write it into a file for -r, " + byCommand)
	case c == '\\':
		return p.because("it looks like a path; write it with /")
	case c == '/' || c == ':':
		return p.because("a path or an address stands on its own, with blanks around it; " + byExample)
	case c == '#':
		return p.because("comments are not taken; " + byExample)
	case c != 0 && strings.IndexByte("&|;$`()<>{}*?!", c) >= 0:
		return p.because(fmt.Sprintf("%q can't stand here: nothing is given to a shell; %s", c, byExample))
	case p.pos == len(p.text):
		return p.because("it ends too early; " + byExample)
	}
	r := []rune(p.text[p.pos:min(len(p.text), p.pos+4)])[0]
	return p.because(fmt.Sprintf("%q can't stand here; %s", r, byExample))
}

// word is the present item as it is shown in an error: up to the next blank
// after the present position.
func (p *parser) word() string {
	end := p.pos
	for end < len(p.text) && strings.IndexByte(" \t\r\n", p.text[end]) < 0 {
		end++
	}
	return clip(p.text[p.start:end])
}

// clip keeps a text short enough for an error.
func clip(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
