package findings

import (
	"bytes"
	"encoding/binary"
	"regexp"
	"strings"
	"sync"

	"asyncrepl/internal/text/pattern"
)

// A kind of error.
type kind struct {
	name    string
	words   []string              // each line has one of them
	pattern func() *regexp.Regexp // compiled when a line has a word
}

// newKind returns a kind. words are separated by bars.
func newKind(name, words, expr string) kind {
	return kind{name: name, words: strings.Split(words, "|"), pattern: pattern.Lazy(expr)}
}

// logged is the kind of a line that a test of Go has logged. It is an error only if the test fails.
const logged = "logged"

// assertion is the kind of a line of a test of Go that says what it wanted. Unlike another line that
// it has logged, it is an error even before `go test -v` says that the test has failed: a subtest says
// so hundreds of lines later.
const assertion = "assertion"

// subtest is the kind of a line that names a failed subtest of Go. Its test is named above it.
const subtest = "subtest"

// kinds returns the kinds, in the order in which a line is compared with them. A line is of the
// first one that it matches and that was not found yet. The first search makes the kinds: most
// servers start and end without one.
var kinds = sync.OnceValue(func() []kind {
	return []kind{
		newKind(assertion, "_test.go:", `^ +\w+_test\.go:\d+: .*\b(?:want|wanted|expected|unexpected|Error Trace)\b`),
		newKind(logged, "_test.go:", `^ +\w+_test\.go:\d+: `),
		newKind("compiler", "error: |error[E|error T|error C|error M|error N|error F|error L|error  |ERROR] |e: file:|Error: ", `^(?:[^\s:]+[:(]\d+(?:[:,]\d+)?\)?:? (?:- )?(?:fatal )?error(?: ?[A-Z]+\d+)?:? |error(?:\[E\d+\])?: [^0]|.*: error: |`+
			`(?:\S.*\(\d+,\d+\): |MSBUILD : )?error [A-Z]+\d+: |\s+\d+:\d+ +error +\S|e: file:\S+:\d+:\d+ |(?:PHP )?(?:Fatal|Parse) error: +\S|! .*Error: |\[ERROR\] \S+:\[\d+,\d+\] )`),
		newKind("go", ".go:", `^\S+\.go:\d+:\d+: \D`),
		newKind("linker", "undefined reference", `: undefined reference to `),
		newKind("traceback", "Traceback", `^\s*(?:[|+] +)?Traceback \(most recent call last\):`),
		newKind("exception", "Error|Exception|** (", `^(?:Uncaught |Unhandled |Caused by: |E +|Exception in thread "[^"]*" )?(?:[A-Za-z_$][\w$]*\.)*[A-Z][A-Za-z]*(?:Error|Exception)(?:: \S| \[|$)|`+
			`^\s+[A-Z][A-Za-z]*(?:Error|Exception)(?:: \S| \[)|^\S+\.py:\d+: [A-Z]\w*(?:Error|Exception)$|^\*\* \([\w.]+\) |^ +Failure/Error: \S`),
		newKind("pytest", "FAILED|ERROR", `^(?:FAILED|ERROR) \S+(?:::|\.py)|^\S+::\S+ (?:FAILED|ERROR)\b`),
		newKind(subtest, "FAIL:", `^ +--- FAIL: `),
		newKind("test", "FAIL|not ok |Failed |failed (", `^--- FAIL: |^FAIL[:\t] ?\S|^not ok \d|^ FAIL  ?\S|^FAIL \S+[./]|^test .* \.\.\. FAILED|`+
			`^\[  FAILED  \] \w|\*\*\*Failed |^  Failed \S.* \[|\S \(FAILED - \d+\)$|\S > .* FAILED$|^Test Case .* failed \(|^//\S+ +FAILED |^# +Failed test `),
		newKind("panic", "panic|fatal error: ", `^panic: |^fatal error: |^thread '[^']*'.* panicked at|[Kk]ernel panic`),
		newKind("npm", "npm ERR!|npm error|ERR_PNPM|ELIFECYCLE|error Command", `^npm (?:ERR!|error) \S|^\s*(?:ERR_PNPM_\w+|ELIFECYCLE) |^error Command failed`),
		newKind("make", "*** |FAILED: ", `^\S*make(?:\[\d+\])?: \*\*\* |^\S+:\d+: \*\*\* |^FAILED: [A-Za-z./]`),
		newKind("build", "CMake Error|Module not found|error during|FAILED|FAILURE", `^CMake Error|^Module not found: Error: |^error during build|^FAILURE: \S|^> Task \S+ FAILED|^\*\* [A-Z]+ FAILED|^The following tests FAILED`),
		newKind("crash", "Segmentation fault|core dumped|AddressSanitizer", `Segmentation fault|\(core dumped\)|ERROR: AddressSanitizer`),
		newKind("fatal", "atal: |FATAL|CRITICAL|failed: [", `^(?:\S+: )?fatal: \S|^failed: \[|(?:^|[\s\[|])(?:FATAL|CRITICAL)(?:[\s\]|]|: \S)`),
		newKind("log", "ERROR|[error]|level|severity", `(?:^|[\s\[|])ERROR(?:[\s\]|]|: )(?:\d+ --- )?[^\d=]*[A-Za-z]|^\[error\] \S|\blevel=(?i:error|fatal)\s|"(?:level|severity)": ?"(?i:error|fatal)"`),
		newKind("check", "##[error]|::error", `^##\[error\]\S|^::error\b`),
		newKind("error", "rror: |rror in |rror from |rror response |E: Unable|E: Failed|E: Could", `^\s*(?:[\w./-]+: )?(?:[Ee]rror|[Ii]nternal error): [^\d\s]|^Error (?:in|from|response) .*: |^E: `),
		newKind("shell", "mmand not found|such file or dir|mission denied", `^\S+: .*(?:[Cc]ommand not found|[Nn]o such file or directory|[Pp]ermission denied)$`),
	}
})

// prefix matches what programs that pass on the output of others write before each line: its time,
// as GitHub does, job and step (gh run view), the step of a build (docker), the service (docker
// compose) or a frame (terraform, yarn).
var prefix = pattern.Lazy(`^(?:(?:[^\t]+\t[^\t]+\t)?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S* +)?(?:#\d+ (?:\d+\.\d+ )?|[\w.-]+ +\| |(?:➤ \w+: )?│ )?`)

// words are the parts of lines that are worth comparing with the patterns: each line of a kind has
// one. None is shorter than five bytes. A change of colours can stand only at the end of one: npm
// writes its name in one colour and "error" in another.
var words = strings.Split("error|Error|npm error|ERROR|xception|ERR! |ERR!\x1b|ERR_PNPM|FAILE|FAIL |FAIL:|FAIL\t|FAIL\x1b|FAILU|Failed |failed (|failed: [|Traceback|panic:|panic - |panicked|fatal:|fatal e|fatal\"|=fatal|Fatal e|FATAL|CRITICAL|"+
	".go:1|.go:2|.go:3|.go:4|.go:5|.go:6|.go:7|.go:8|.go:9|.go\x1b[|undefined reference|*** [|*** N|*** m|not ok |Segmentation fault|core dumped|"+
	"e: file:|ELIFECYCLE|E: Unable|E: Failed|E: Could|mmand not found|such file or dir|mission denied", "|")

// A wordTable finds words by three bytes of them. hashes says which of lists is for the hash of
// three bytes; the first list is empty.
type wordTable struct {
	hashes [1 << hashBits]uint8
	lists  [][]wordPart
}

// A wordPart is a word and the offset of three bytes of it.
type wordPart struct {
	word   string
	offset int
}

const hashBits = 14

// hash returns a hash of the first three of four bytes, which are in the order of little endian. Of
// 4,000 factors this one let the fewest bytes of sources, documents, numbers and the floods of the
// tests be taken for those of a word.
func hash(four uint32) uint32 { return four << 8 * 0xc25c661d >> (32 - hashBits) }

// common has three bytes that lines without an error often have. Where a word has others, it is found
// by them.
const common = " the file of another command and more are not to source library "

// window returns the first of the three neighbouring offsets of a word by which it is found.
func window(word string) (best int) {
	least := 4
	for at := range len(word) - 4 {
		often := 0
		for _, three := range []string{word[at : at+3], word[at+1 : at+4], word[at+2 : at+5]} {
			often += strings.Count(common, three)
		}
		if often < least {
			best, least = at, often
		}
	}
	return best
}

// table returns the table of the words. It has three offsets of each.
var table = sync.OnceValue(func() *wordTable {
	t := &wordTable{lists: make([][]wordPart, 1)}
	for _, word := range words {
		first := window(word)
		for offset := first; offset < first+3; offset++ {
			list := &t.hashes[hash(uint32(word[offset])|uint32(word[offset+1])<<8|uint32(word[offset+2])<<16)]
			if *list == 0 {
				*list = uint8(len(t.lists))
				t.lists = append(t.lists, nil)
			}
			t.lists[*list] = append(t.lists[*list], wordPart{word, offset})
		}
	}
	return t
})

// nextWord returns where the next word in b from an offset on ends, or -1. It looks up the three
// bytes at every third offset: one of the three offsets of a word is among them.
func nextWord(b []byte, from int) int {
	t := table()
	for p := from; p+3 <= len(b); {
		if p+24 <= len(b) { // three offsets at a time, twice
			c, h := (*[24]byte)(b[p:]), &t.hashes
			x0, x9 := binary.LittleEndian.Uint64(c[0:]), binary.LittleEndian.Uint64(c[9:])
			if h[hash(uint32(x0))]|h[hash(uint32(x0>>24))]|h[hash(binary.LittleEndian.Uint32(c[6:]))] == 0 {
				if h[hash(uint32(x9))]|h[hash(uint32(x9>>24))]|h[hash(binary.LittleEndian.Uint32(c[15:]))] == 0 {
					p += 18
					continue
				}
				p += 9
			}
		}
		three := uint32(b[p]) | uint32(b[p+1])<<8 | uint32(b[p+2])<<16
		for _, w := range t.lists[t.hashes[hash(three)]] {
			begin := p - w.offset
			if end := begin + len(w.word); begin >= from && end <= len(b) && string(b[begin:end]) == w.word && (w.word[1:] != "rror" && w.word != "xception" || ofError(b, begin, end)) {
				return end
			}
		}
		p += 3
	}
	return -1
}

// ofError reports whether the word "error" or "exception" at some offsets of b can be the one of an
// error. It is not if it is part of another name (-Werror, errors, error_test, /error), has a value
// (error=nil) or is followed by another word in lower case.
func ofError(b []byte, begin, end int) bool {
	if b[begin] == 'e' && begin > 0 {
		sequence := bytes.HasSuffix(bytes.TrimRight(b[max(0, begin-12):begin-1], "0123456789;"), []byte("\x1b["))
		if c := b[begin-1]; c == '/' || isLetter(c) && !sequence {
			return false
		}
	}
	rest := b[end:]
	if len(rest) == 0 {
		return true
	}
	if rest[0] != ' ' || len(rest) == 1 {
		return bytes.IndexByte([]byte(":[])\"!\r\n\x1b"), rest[0]) >= 0
	}
	for _, next := range []string{"at ", "in ", "from ", "during ", "response "} {
		if bytes.HasPrefix(rest[1:], []byte(next)) {
			return true
		}
	}
	return bytes.IndexByte([]byte(" [\r\n\x1b"), rest[1]) >= 0 || 'A' <= rest[1] && rest[1] <= 'Z'
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

// matches reports whether a line is of the kind.
func (k *kind) matches(line string) bool {
	for _, word := range k.words {
		if strings.Contains(line, word) {
			return k.pattern().MatchString(line)
		}
	}
	return false
}
