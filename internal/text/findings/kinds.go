package findings

import (
	"bytes"
	"regexp"
	"sync"

	"asyncrepl/internal/text/pattern"
)

// A kind of error.
type kind struct {
	name    string
	words   [][]byte              // each line has one of them; no word is shorter than four bytes
	pattern func() *regexp.Regexp // compiled when a line has a word
}

// newKind returns a kind. words are separated by bars.
func newKind(name, words, expr string) kind {
	return kind{name: name, words: bytes.Split([]byte(words), []byte("|")), pattern: pattern.Lazy(expr)}
}

// kinds returns the kinds, in the order in which a line is compared with them. A line is of the
// first one that it matches and that was not found yet. The first search makes the kinds: most
// servers start and end without one.
//
// A word stands in a line without colours between its bytes: "npm error" would not be found, because
// npm writes its name in one colour and "error" in another one.
var kinds = sync.OnceValue(func() []kind {
	return []kind{
		newKind("compiler", "rror|ERROR|e: file:", `^(?:[^\s:]+[:(]\d+(?:[:,]\d+)?\)?:? (?:- )?(?:fatal )?error(?: ?[A-Z]+\d+)?:? |error(?:\[E\d+\])?: [^0]|.*: error: |`+
			`(?:\S.*\(\d+,\d+\): |MSBUILD : )?error [A-Z]+\d+: |\s+\d+:\d+ +error +\S|e: file:\S+:\d+:\d+ |(?:PHP )?(?:Fatal|Parse) error: +\S|! .*Error: |\[ERROR\] \S+:\[\d+,\d+\] )`),
		newKind("go", ".go:", `^\S+\.go:\d+:\d+: \D`),
		newKind("linker", "undefined reference", `: undefined reference to `),
		newKind("traceback", "Traceback", `^\s*(?:[|+] +)?Traceback \(most recent call last\):`),
		newKind("exception", "rror|xception", `^(?:Uncaught |Unhandled |Caused by: |E +|Exception in thread "[^"]*" )?(?:[A-Za-z_$][\w$]*\.)*[A-Z][A-Za-z]*(?:Error|Exception)(?:: \S| \[|$)|`+
			`^\s+[A-Z][A-Za-z]*(?:Error|Exception)(?:: \S| \[)|^\S+\.py:\d+: [A-Z]\w*(?:Error|Exception)$|^\*\* \([\w.]+\) |^ +Failure/Error: \S`),
		newKind("pytest", "FAILED|ERROR", `^(?:FAILED|ERROR) \S+(?:::|\.py)|^\S+::\S+ (?:FAILED|ERROR)\b`),
		newKind("test", "FAIL|not ok |ailed|✖ ", `^\s*--- FAIL: |^FAIL[:\t] ?\S|^not ok \d|^ FAIL  ?\S|^FAIL \S+[./]|^test .* \.\.\. FAILED|`+
			`^\[  FAILED  \] \w|\*\*\*Failed |^  Failed \S.* \[|\S \(FAILED - \d+\)$|\S > .* FAILED$|^Test Case .* failed \(|^//\S+ +FAILED |^# +Failed test |^✖ \S`),
		newKind("panic", "panic|fatal error: ", `^panic: |^fatal error: |^thread '[^']*'.* panicked at|[Kk]ernel panic`),
		newKind("npm", "ERR!|rror|ERR_PNPM|ELIFECYCLE", `^npm (?:ERR!|error) \S|^\s*(?:ERR_PNPM_\w+|ELIFECYCLE) |^error Command failed`),
		newKind("make", "*** |FAILED: ", `^\S*make(?:\[\d+\])?: \*\*\* |^\S+:\d+: \*\*\* |^FAILED: [A-Za-z./]`),
		newKind("build", "rror|FAILED|FAILURE", `^CMake Error|^Module not found: Error: |^error during build|^FAILURE: \S|^> Task \S+ FAILED|^\*\* [A-Z]+ FAILED|^The following tests FAILED`),
		newKind("crash", "Segmentation fault|core dumped|AddressSanitizer", `Segmentation fault|\(core dumped\)|ERROR: AddressSanitizer`),
		newKind("fatal", "atal: |FATAL|CRITICAL|failed: [", `^(?:\S+: )?fatal: \S|^failed: \[|(?:^|[\s\[|])(?:FATAL|CRITICAL)(?:[\s\]|]|: \S)`),
		newKind("log", "ERROR|rror|atal", `(?:^|[\s\[|])ERROR(?:[\s\]|]|: )(?:\d+ --- )?[^\d=]*[A-Za-z]|^\[error\] \S|\blevel=(?i:error|fatal)\s|"(?:level|severity)": ?"(?i:error|fatal)"`),
		newKind("check", "##[error]|::error", `^##\[error\]\S|^::error\b`),
		newKind("error", "rror: |rror in |rror from |rror response |E: Unable|E: Failed|E: Could", `^\s*(?:[\w./-]+: )?(?:[Ee]rror|[Ii]nternal error): [^\d\s]|^Error (?:in|from|response) .*: |^E: `),
		newKind("shell", "mmand not found|such file or dir|mission denied", `^\S+: .*(?:[Cc]ommand not found|[Nn]o such file or directory|[Pp]ermission denied)$`),
	}
})

// prefix matches what programs that pass on the output of others write before each line: its time,
// as GitHub does, job and step (gh run view), the step of a build (docker), the service (docker
// compose) or a frame (terraform, yarn).
var prefix = pattern.Lazy(`^(?:(?:[^\t]+\t[^\t]+\t)?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S* +)?(?:#\d+ (?:\d+\.\d+ )?|[\w.-]+ +\| |(?:➤ \w+: )?│ )?`)

// A wordPair says that a word has two bytes at an offset.
type wordPair struct {
	text   []byte
	kind   int
	offset int
}

// wordPairs are the first three pairs of bytes of each word, by the pair. index says which list is
// for a pair; the first list is empty.
type wordPairs struct {
	index [1 << 16]uint8
	lists [][]wordPair
}

// pairs returns the pairs of the words of all kinds.
var pairs = sync.OnceValue(func() *wordPairs {
	all := &wordPairs{lists: make([][]wordPair, 1)}
	for i, k := range kinds() {
		for _, word := range k.words {
			for offset := range 3 {
				list := &all.index[int(word[offset])<<8|int(word[offset+1])]
				if *list == 0 {
					*list = uint8(len(all.lists))
					all.lists = append(all.lists, nil)
				}
				all.lists[*list] = append(all.lists[*list], wordPair{word, i, offset})
			}
		}
	}
	return all
})

// matches reports whether a line is of the kind.
func (k *kind) matches(line []byte) bool {
	for _, word := range k.words {
		if bytes.Contains(line, word) {
			return k.pattern().Match(line)
		}
	}
	return false
}
