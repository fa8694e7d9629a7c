package pkgmgr

import (
	"fmt"
	"slices"
	"strings"
)

// markerVariables are those of PEP 508.
var markerVariables = []string{
	"python_version", "python_full_version", "os_name", "sys_platform", "platform_release", "platform_system",
	"platform_version", "platform_machine", "platform_python_implementation", "implementation_name",
	"implementation_version", "extra",
}

// markerOperators are those of PEP 508 that are written with signs.
var markerOperators = []string{"<=", "<", "!=", "==", ">=", ">", "~=", "==="}

// marker takes a marker, or what stands in its parentheses at the given depth,
// and writes it anew.
func (p *parser) marker(depth int) (string, error) {
	var b strings.Builder
	for {
		part, err := p.comparison(depth)
		if err != nil {
			return "", err
		}
		b.WriteString(part)
		word := p.keyword("and", "or")
		if word == "" {
			return b.String(), nil
		}
		b.WriteString(" " + word + " ")
	}
}

// comparison takes one comparison, or a marker in parentheses.
func (p *parser) comparison(depth int) (string, error) {
	p.blanks()
	if p.peek() == '(' {
		if depth == maxNested {
			return "", p.because("its marker has too many parentheses")
		}
		p.pos++
		inner, err := p.marker(depth + 1)
		if err != nil {
			return "", err
		}
		p.blanks()
		if p.peek() != ')' {
			return "", p.refuse()
		}
		p.pos++
		return "(" + inner + ")", nil
	}
	left, isVar, err := p.operand()
	if err != nil {
		return "", err
	}
	op, err := p.markerOperator()
	if err != nil {
		return "", err
	}
	right, isVarToo, err := p.operand()
	if err != nil {
		return "", err
	}
	if !isVar && !isVarToo {
		return "", p.because("its marker compares two values; one side names a variable, such as python_version")
	}
	return left + " " + op + " " + right, nil
}

// operand takes a variable or a value in quotes.
func (p *parser) operand() (text string, variable bool, err error) {
	p.blanks()
	if c := p.peek(); c == '\'' || c == '"' {
		if c == p.quote {
			return "", false, p.because("inside these quotes a marker's value stands in quotes of the other kind")
		}
		p.pos++
		value := p.run(inMarkerValue)
		if p.peek() != c {
			return "", false, p.refuse()
		}
		p.pos++
		return `"` + value + `"`, false, nil
	}
	word := p.run(inName)
	if slices.Contains(markerVariables, word) {
		return word, true, nil
	}
	return "", false, p.because(fmt.Sprintf(`after ; stands a marker, such as python_version > "3.9", and %q is none of its variables; nothing is given to a shell`, clip(word)))
}

// markerOperator takes the operator of a comparison.
func (p *parser) markerOperator() (string, error) {
	p.blanks()
	if op := p.run(isOperator); op != "" {
		if !slices.Contains(markerOperators, op) {
			return "", p.because(fmt.Sprintf("%q is no operator of a marker", clip(op)))
		}
		return op, nil
	}
	switch p.keyword("in", "not") {
	case "in":
		return "in", nil
	case "not":
		if p.keyword("in") != "" {
			return "not in", nil
		}
	}
	return "", p.refuse()
}

// keyword takes one of words if it is the next whole word, and returns it.
func (p *parser) keyword(words ...string) string {
	end := p.pos
	p.blanks()
	if word := p.run(inName); slices.Contains(words, word) {
		return word
	}
	p.pos = end
	return ""
}

// inMarkerValue allows less than PEP 508 does: nothing that a shell would act
// upon, should an installer ever hand a marker to one.
func inMarkerValue(c byte) bool {
	return isAlnum(c) || strings.IndexByte(" ._+*!,:/#~-", c) >= 0
}
