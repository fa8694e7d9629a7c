package arguments

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/agnivade/levenshtein"

	"asyncrepl/internal/mcp/rawjson"
	"asyncrepl/internal/reply/report"
	"asyncrepl/internal/terminal/keys"
	"asyncrepl/internal/text/pattern"
)

// KeySequence returns what the keys of the call send. An element is the name of a key or chord, or
// text. A text that looks like the name of a key but names no key is a mistake, and so are words
// alone: typed, such a name would be a command to some programs. The error shows nothing of secret
// keys.
func (a *Args) KeySequence() (keys.Sequence, error) {
	var all keys.Sequence
	pressed, word := false, -1 // whether there is a key; the first word
	for i, element := range a.Keys {
		key, ok := keys.Parse(element)
		switch {
		case element == "":
			return nil, report.Mistakef("keys[%d] is empty.", i)
		case ok:
			pressed = true
		case utf8.RuneCountInString(element) == 1:
			key, pressed = keys.Text(element), true
		case holdsKeys(element):
			return nil, report.Mistakef("%s holds several keys: give each as an element of its own.", a.keyNamed(i))
		// The element is likely meant as a key.
		case isChord().MatchString(element), isFunctionKey().MatchString(bare(element)) && !isRareKey().MatchString(element),
			len(nearestKeys(element)) > 0:
			return nil, a.noKey(i)
		default:
			key = keys.Text(element)
			if word < 0 && isWord().MatchString(element) {
				word = i
			}
		}
		all = append(all, key)
	}
	if word >= 0 && !pressed {
		return nil, a.noKey(word)
	}
	return all, nil
}

// noKey returns the mistake that an element of keys is not a key.
func (a *Args) noKey(i int) error {
	const remedy = "Keys are: %s, f1 to f12; chords such as ctrl-c, alt-x and shift-tab; and single characters. To type a word, use text."
	near := ""
	if !a.Secret {
		near = didYouMean(nearestKeys(a.Keys[i]))
	}
	names := slices.DeleteFunc(keys.Names(), func(name string) bool { return name[0] == 'f' })
	return report.Mistakef("%s is not a key.%s "+remedy, a.keyNamed(i), near, strings.Join(names, ", "))
}

// keyNamed names an element of keys in an error.
func (a *Args) keyNamed(i int) string {
	if a.Secret {
		return fmt.Sprintf("keys[%d]", i)
	}
	return fmt.Sprintf("keys[%d] (%s)", i, report.OneLine(a.Keys[i]))
}

// holdsKeys reports whether an element is several names of keys with spaces between them.
func holdsKeys(element string) bool {
	names := strings.Fields(element)
	return len(names) > 1 && !slices.ContainsFunc(names, func(name string) bool {
		_, ok := keys.Parse(name)
		return !ok || len(name) == 1
	})
}

// The patterns are compiled when a call first names keys.
var (
	// isWord matches an element that could be meant as a name.
	isWord = pattern.Lazy(`^[A-Za-z][A-Za-z0-9_-]*$`)

	// isChord matches what has the form of a chord, or is the name of a key of other keyboards.
	isChord = pattern.Lazy(`(?i)^((ctrl|ctl|control|alt|meta|shift|super|cmd|command|win|option|opt|hyper|fn)[-+].*|[cms]-.|\^.)$`)

	// isFunctionKey matches what bare leaves of the name of a function key, also of one that no terminal
	// has.
	isFunctionKey = pattern.Lazy(`^f[0-9]+$`)

	// isRareKey matches f13 and above. Keyboards lack these keys, so f200 among keys is text.
	isRareKey = pattern.Lazy(`(?i)^f(1[3-9]|[2-9][0-9]|[1-9][0-9]{2,})$`)
)

// longestName bounds what is compared with the names of keys, in bytes with what bare leaves out.
const longestName = 16

// bare returns a name of a key as [keys.Names] spells it, without brackets, dashes and the words key and
// arrow: f13 for <F13> and KEY_F13. It returns nothing if the word is too long for a name.
func bare(word string) string {
	if len(word) > longestName {
		return ""
	}
	return strings.NewReplacer("<", "", ">", "", "{", "", "}", "", "[", "", "]", "", "_", "", "-", "", "key", "", "arrow", "").
		Replace(strings.ToLower(word))
}

// nearestKeys returns the names of keys that a word differs from in little: in what bare leaves out, or
// in one letter of a long name, but not in its first.
func nearestKeys(word string) (near []string) {
	if utf8.RuneCountInString(word) < 2 {
		return nil
	}
	word = bare(word)
	for _, name := range keys.Names() {
		if word == name || len(name) >= 5 && word != "" && word[0] == name[0] && levenshtein.ComputeDistance(word, name) == 1 {
			near = append(near, name)
		}
	}
	return near
}

// signalNames are the signals that a call can send. The one that ends a job for certain belongs to
// cancel_job.
var signalNames = []string{"INT", "TERM", "HUP", "QUIT", "USR1", "USR2", "WINCH", "CONT", "TSTP"}

// readSignal reads the name of a signal, which can also be SIGINT or int.
func readSignal(name string, raw json.RawMessage) (string, error) {
	s, _ := rawjson.String(raw)
	short := strings.TrimPrefix(strings.ToUpper(s), "SIG")
	switch {
	case slices.Contains(signalNames, short):
		return "SIG" + short, nil
	case short == "KILL":
		return "", report.Mistakef("%s may not be KILL: cancel_job with force=true kills the job and all its processes.", name)
	}
	return "", report.Mistakef("%s must be one of: %s.%s", name, strings.Join(signalNames, ", "), didYouMean(Nearest(short, signalNames)))
}
