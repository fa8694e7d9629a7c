package pkgmgr

import (
	"fmt"
	"slices"
	"strings"
)

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
var version = pattern(`^(?i)v?(\d+!)?\d+(\.\d+)*` +
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
		return "", p.because(fmt.Sprintf("%q is not an operator; %s", clip(op), byExample))
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
		if !version().MatchString(strings.TrimSuffix(v, ".*")) {
			return "", p.because(fmt.Sprintf("%q is not a version", clip(v)))
		}
	case strings.Contains(v, "*"):
		return "", p.because(fmt.Sprintf("%q takes no *; only == and != do", clip(p.text[from:p.pos])))
	case !version().MatchString(v):
		return "", p.because(fmt.Sprintf("%q is not a version", clip(v)))
	}
	return op + v, nil
}
