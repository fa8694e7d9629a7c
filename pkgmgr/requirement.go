package pkgmgr

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// The grammar of a text with requirements, PEP 508 by name without addresses.
// Blanks may stand between all parts but those of a name or a version; the end
// of a line ends a requirement.
//
//	text        = [ item { sep item } ]           sep: blanks, line ends, commas
//	item        = requirement | "'" requirement "'" | '"' requirement '"'
//	requirement = name [ extras ] [ versions ] [ ";" marker ]
//	extras      = "[" [ name { "," name } ] "]"
//	versions    = clauses | "(" clauses ")"       clauses: clause { "," clause }
//	clause      = ( "~=" | "==" | "!=" | "<=" | ">=" | "<" | ">" | "===" ) version
//	marker      = as in PEP 508, with the values that inMarkerValue allows
//
// A comma belongs to the versions if an operator follows it, else it separates:
// "requests>=2,<3, numpy" is two requirements. A marker ends where neither
// "and" nor "or" follows, so it needs no quotes around its requirement, though
// it may have them; inside, its values then stand in quotes of the other kind.

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
	byName    = `give packages by name, such as requests>=2,<3`
	byCommand = `packages are installed by name only here; for anything else run the installer as a shell command`
)

// ParseRequirements takes a text with one or several requirements apart and
// returns each in one spelling. A text that holds anything but requirements by
// name is refused with a *RequirementError.
func ParseRequirements(text string) ([]string, error) {
	if len(text) > maxText {
		return nil, &RequirementError{clip(text), fmt.Sprintf("longer than %d bytes; install in several calls", maxText)}
	}
	p := &parser{text: text}
	var reqs []string
	for {
		p.skip(" \t\r\n,")
		if p.pos == len(text) {
			break
		}
		r, err := p.item()
		if err != nil {
			return nil, err
		}
		reqs = append(reqs, r)
	}
	if len(reqs) == 0 {
		return nil, &RequirementError{clip(text), "it is empty; " + byName}
	}
	return reqs, nil
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

// item takes one requirement and the quotes around it.
func (p *parser) item() (string, error) {
	p.start, p.quote = p.pos, 0
	if c := p.peek(); c == '\'' || c == '"' {
		p.quote = c
		p.pos++
		p.blanks()
	}
	r, err := p.requirement()
	if err != nil {
		return "", err
	}
	if p.quote != 0 {
		p.blanks()
		if p.peek() != p.quote {
			return "", p.refuse()
		}
		p.pos++
	}
	if p.pos < len(p.text) && strings.IndexByte(" \t\r\n,", p.peek()) < 0 {
		return "", p.refuse()
	}
	return r, nil
}

// requirement takes one requirement and writes it anew.
func (p *parser) requirement() (string, error) {
	name, err := p.name()
	if err != nil {
		return "", err
	}
	if err := p.checkName(name); err != nil {
		return "", err
	}
	extras, err := p.extras()
	if err != nil {
		return "", err
	}
	versions, err := p.versions()
	if err != nil {
		return "", err
	}
	end := p.pos
	p.blanks()
	if p.peek() != ';' {
		p.pos = end // the blanks separate
		return name + extras + versions, nil
	}
	p.pos++
	marker, err := p.marker(0)
	if err != nil {
		return "", err
	}
	return name + extras + versions + "; " + marker, nil
}

// name takes the name of a package or of an extra.
func (p *parser) name() (string, error) {
	name := p.run(inName)
	if name == "" || !isAlnum(name[0]) || !isAlnum(name[len(name)-1]) {
		return "", p.refuse()
	}
	return name, nil
}

// fileSuffixes end names that an installer, or the person who wrote them, takes
// for files.
var fileSuffixes = []string{".whl", ".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz", ".tar.xz", ".txz",
	".tlz", ".tar.lz", ".tar.lzma", ".egg", ".txt", ".toml", ".lock", ".cfg"}

// checkName refuses names that are well formed and surely a mistake.
func (p *parser) checkName(name string) error {
	lower := strings.ToLower(name)
	isFile := slices.ContainsFunc(fileSuffixes, func(s string) bool { return strings.HasSuffix(lower, s) })
	switch {
	case isFile && p.peek() != '/' && p.peek() != '\\' && p.peek() != ':':
		return p.because("it looks like a file; " + byCommand)
	case lower == "install":
		return p.because(`leave the words of the command line out, "pip install" too; ` + byName)
	case !strings.ContainsFunc(name, func(r rune) bool { return r >= 'A' }) && p.peek() != '/':
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

// versions takes the version clauses that follow, if any.
func (p *parser) versions() (string, error) {
	end := p.pos
	p.blanks()
	paren := p.peek() == '('
	if paren {
		p.pos++
		p.blanks()
	}
	if !isOperator(p.peek()) {
		if paren {
			return "", p.refuse()
		}
		p.pos = end
		return "", nil
	}
	var clauses []string
	for {
		c, err := p.clause()
		if err != nil {
			return "", err
		}
		clauses = append(clauses, c)
		if !p.comma() {
			break
		}
	}
	if paren {
		p.blanks()
		if p.peek() != ')' {
			return "", p.refuse()
		}
		p.pos++
	}
	return strings.Join(clauses, ","), nil
}

// comma passes over a comma that an operator follows; any other stays, as it
// separates requirements.
func (p *parser) comma() bool {
	end := p.pos
	p.blanks()
	if p.peek() == ',' {
		p.pos++
		p.blanks()
		if isOperator(p.peek()) {
			return true
		}
	}
	p.pos = end
	return false
}

// version is PEP 440's, as its appendix B has it.
var version = regexp.MustCompile(`^(?i)v?(\d+!)?\d+(\.\d+)*` +
	`([-_.]?(alpha|a|beta|b|preview|pre|c|rc)[-_.]?\d*)?` +
	`(-\d+|[-_.]?(post|rev|r)[-_.]?\d*)?` +
	`([-_.]?dev[-_.]?\d*)?` +
	`(\+[a-z0-9]+([-_.][a-z0-9]+)*)?$`)

// clause takes an operator and its version.
func (p *parser) clause() (string, error) {
	from := p.pos
	op := p.run(isOperator)
	if op == "=" {
		return "", p.because("one = is not an operator; pin with ==")
	}
	if !slices.Contains([]string{"~=", "==", "!=", "<=", ">=", "<", ">", "==="}, op) {
		return "", p.because(fmt.Sprintf("%q is not an operator; %s", clip(op), byName))
	}
	p.blanks()
	v := p.run(inVersion)
	switch {
	case v == "":
		return "", p.refuse()
	case op == "===":
		if strings.Contains(v, "*") {
			return "", p.because("=== compares letter by letter, without *")
		}
	case op == "==" || op == "!=":
		if !version.MatchString(strings.TrimSuffix(v, ".*")) {
			return "", p.because(fmt.Sprintf("%q is not a version", clip(v)))
		}
	case strings.Contains(v, "*"):
		return "", p.because(fmt.Sprintf("%q takes no *; only == and != do", clip(p.text[from:p.pos])))
	case !version.MatchString(v):
		return "", p.because(fmt.Sprintf("%q is not a version", clip(v)))
	}
	return op + v, nil
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
	word := strings.TrimLeft(p.word(), `'"`)
	c := p.peek()
	switch {
	case strings.HasPrefix(word, "-"):
		return p.because("it looks like an option, and none are taken; " + byName)
	case strings.Contains(word, "://") || vcsPrefix.MatchString(word):
		return p.because("it looks like an address; " + byCommand)
	case strings.HasPrefix(word, ".") || strings.HasPrefix(word, "/") || strings.HasPrefix(word, "~"), c == '/', c == '\\', c == ':':
		return p.because("it looks like a path; " + byCommand)
	case c == '@':
		return p.because("@ is not taken; pin a version with ==, and for an address run the installer as a shell command")
	case c == '#':
		return p.because("comments are not taken; " + byName)
	case c != 0 && strings.IndexByte("&|;$`()<>{}*?!", c) >= 0:
		return p.because(fmt.Sprintf("%q can't stand here: nothing is given to a shell; %s", c, byName))
	case p.pos == len(p.text):
		return p.because("it ends too early; " + byName)
	}
	r := []rune(p.text[p.pos:min(len(p.text), p.pos+4)])[0]
	return p.because(fmt.Sprintf("%q can't stand here; %s", r, byName))
}

var vcsPrefix = regexp.MustCompile(`^(?i)((git|hg|svn|bzr)\+|file:)`)

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
