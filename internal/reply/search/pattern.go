package search

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode"
	"unicode/utf8"

	"asyncrepl/internal/reply/report"
	"asyncrepl/internal/text/view"
)

// maxPattern is how many characters a pattern can have.
const maxPattern = 1000

// A Pattern is a regular expression of RE2 that a search looks for in single lines. The syntax:
// https://pkg.go.dev/regexp/syntax
type Pattern struct {
	expr    *regexp.Regexp
	tree    *syntax.Regexp
	literal []byte // every match contains it; nil if no such text is worth looking for
}

// A PatternError says why a pattern can't be used, in words that follow its name.
type PatternError struct{ Text string }

// Error returns the text of the error.
func (e *PatternError) Error() string { return e.Text }

// Compile reads a pattern. Its error is a [*PatternError].
func Compile(pattern string) (*Pattern, error) {
	switch n := utf8.RuneCountInString(pattern); {
	case n == 0:
		return nil, &PatternError{"is empty: it would match every line."}
	case n > maxPattern:
		return nil, &PatternError{fmt.Sprintf("may have %s characters at most.", view.Count(maxPattern))}
	}
	expr, err := regexp.Compile(pattern)
	if err != nil {
		return nil, &PatternError{explain(pattern, err)}
	}
	tree, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil, &PatternError{explain(pattern, err)}
	}
	p := &Pattern{expr: expr, tree: tree}
	switch literal := required(tree, isPlain); {
	case strings.Contains(required(tree, isNewline), "\n"):
		return nil, &PatternError{"holds a newline, but is looked for in one line at a time: search for a part of one line, and use context to see the lines around it."}
	case len(literal) > 1: // one character alone is in too many lines
		p.literal = []byte(literal)
	}
	return p, nil
}

// required returns the longest text, made of characters for which counts is true, that every match
// of an expression contains.
func required(re *syntax.Regexp, counts func(c rune, fold bool) bool) (longest string) {
	switch re.Op {
	case syntax.OpLiteral:
		part := ""
		for _, c := range re.Rune {
			if !counts(c, re.Flags&syntax.FoldCase != 0) {
				part = ""
				continue
			}
			if part += string(c); len(part) > len(longest) {
				longest = part
			}
		}
	case syntax.OpRepeat:
		if re.Min > 0 {
			return required(re.Sub[0], counts)
		}
	case syntax.OpCapture, syntax.OpPlus, syntax.OpConcat:
		for _, sub := range re.Sub {
			if part := required(sub, counts); len(part) > len(longest) {
				longest = part
			}
		}
	}
	return longest
}

// isPlain reports whether a character of a pattern stands for one sequence of bytes. U+FFFD doesn't:
// it also matches bytes that are not UTF-8 (https://pkg.go.dev/regexp, golang/go#48749).
func isPlain(c rune, fold bool) bool {
	return c != utf8.RuneError && c != '\n' && !(fold && unicode.SimpleFold(c) != c)
}

func isNewline(c rune, _ bool) bool { return c == '\n' }

// explain returns why RE2 refuses a pattern, with the place in the pattern.
func explain(pattern string, err error) string {
	wrong, ok := errors.AsType[*syntax.Error](err)
	if !ok {
		return "is refused by RE2: " + err.Error() + "."
	}
	text := "is refused by RE2: " + wrong.Code.String()
	if c := wrong.Code; wrong.Expr != "" && c != syntax.ErrMissingParen && c != syntax.ErrUnexpectedParen {
		text += " " + report.OneLine(wrong.Expr)
	}
	if at := position(pattern, wrong.Code); at >= 0 {
		text += fmt.Sprintf(", at character %d of %d", utf8.RuneCountInString(pattern[:at])+1, utf8.RuneCountInString(pattern))
	}
	return text + "."
}

// position returns the offset of an error in a pattern, or -1 if it is about all of the pattern.
// The parser doesn't say it, but reads from left to right: so the error is in the shortest beginning
// that has it. An open parenthesis is the one after the longest beginning that is correct.
func position(pattern string, code syntax.ErrorCode) int {
	correct := 0
	for end := range len(pattern) + 1 {
		if end < len(pattern) && !utf8.RuneStart(pattern[end]) {
			continue
		}
		_, err := syntax.Parse(pattern[:end], syntax.Perl)
		wrong, ok := errors.AsType[*syntax.Error](err)
		switch {
		case !ok:
			correct = end
		case wrong.Code != code || code == syntax.ErrMissingParen:
		case code == syntax.ErrUnexpectedParen || code == syntax.ErrTrailingBackslash:
			return end - 1
		case code == syntax.ErrLarge || code == syntax.ErrNestingDepth || code == syntax.ErrInvalidUTF8:
			return -1
		default:
			return end - len(wrong.Expr)
		}
	}
	if code == syntax.ErrMissingParen {
		return correct
	}
	return -1
}
