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
var kinds = sync.OnceValue(func() []kind {
	return []kind{
		newKind("compiler", "rror", `^(?:[^\s:]+[:(]\d+(?:[:,]\d+)?\)?:? (?:- )?(?:fatal )?error(?: ?[A-Z]+\d+)?:? |error(?:\[E\d+\])?: [^0]|.{0,100}: error: )`),
		newKind("go", ".go:", `^\S+\.go:\d+:\d+: \D`),
		newKind("linker", "undefined reference", `: undefined reference to `),
		newKind("traceback", "Traceback", `^\s*(?:[|+] +)?Traceback \(most recent call last\):`),
		newKind("exception", "rror|xception", `^(?:Uncaught |Unhandled |Caused by: |E +|Exception in thread "[^"]*" )?(?:[A-Za-z_$][\w$]*\.)*[A-Z][A-Za-z]*(?:Error|Exception)(?:: \S| \[|$)`),
		newKind("pytest", "FAILED|ERROR", `^(?:FAILED|ERROR) \S+(?:::|\.py)|^\S+::\S+ (?:FAILED|ERROR)\b`),
		newKind("test", "FAIL", `^\s*--- FAIL: |^FAIL[:\t] ?\S|^not ok \d|^ FAIL  ?\S|^test .* \.\.\. FAILED`),
		newKind("panic", "panic|fatal error: ", `^panic: |^fatal error: |^thread '[^']*'.* panicked at|[Kk]ernel panic`),
		newKind("npm", "npm ERR!|npm error", `^npm (?:ERR!|error) \S`),
		newKind("make", "*** [|FAILED: ", `^\S*make(?:\[\d+\])?: \*\*\* \[|^FAILED: [A-Za-z./]`),
		newKind("crash", "Segmentation fault|core dumped|AddressSanitizer", `Segmentation fault|\(core dumped\)|ERROR: AddressSanitizer`),
		newKind("fatal", "atal: |FATAL|CRITICAL", `^(?:\S+: )?fatal: \S|(?:^|[\s\[|])(?:FATAL|CRITICAL)(?:[\s\]|]|: \S)`),
		newKind("log", "ERROR", `(?:^|[\s\[|])ERROR(?:[\s\]|]|: )[^\d=]*[A-Za-z]`),
		newKind("error", "rror: ", `^(?:[\w./-]+: )?(?:[Ee]rror|[Ii]nternal error): [^\d\s]`),
		newKind("shell", "mmand not found|such file or dir|mission denied", `^\S+: .*(?:[Cc]ommand not found|[Nn]o such file or directory|[Pp]ermission denied)$`),
	}
})

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
