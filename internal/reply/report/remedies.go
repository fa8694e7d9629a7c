package report

import (
	"errors"

	"asyncrepl/internal/terminal/keys"
	"asyncrepl/internal/terminal/tty"
	"asyncrepl/jobs"
)

// errorRemedies say in the terms of the tools how to avoid an error of a package that knows no tools.
var errorRemedies = []struct {
	err    error
	remedy string
}{
	{tty.ErrLineTooLong, "send it in parts to a command started with tty=false, or put it in a file"},
	{tty.ErrControl, `press them with keys, such as keys=["ctrl-c"]; use eof=true for end of file, or tty=false`},
	{tty.ErrRawEOF, `send keys=["ctrl-d"], which ends a readline prompt, or the key that the program quits by`},
	{jobs.ErrNoTerminal, "it takes text, eof and signal; start it without tty=false for keys, paste and size"},
	{keys.ErrPasteControl, "send them with keys or, if the program reads keys, as text without paste"},
	{tty.ErrEcho, "wait until the job asks with Waiting: secret"},
}

// causeRemedies end the detail of a receipt: they say how to avoid what kept the job from starting
// or from getting input.
var causeRemedies = map[jobs.Cause]string{
	jobs.NoTerminal:   ": a command that needs no terminal runs with tty=false",
	jobs.NoDirectory:  ": make it, or name another in cwd",
	jobs.OpenQuestion: ": answer it with send_python_input, or cancel_job",
	jobs.NoQuestions:  ", which only execute_python can give",
}

// WithRemedy returns the text of an error and how to avoid it, if that is known.
func WithRemedy(err error) string {
	text := err.Error()
	for _, r := range errorRemedies {
		if errors.Is(err, r.err) {
			text += ": " + r.remedy
		}
	}
	return text
}

// ReceiptWithRemedy returns the receipt with the remedy for its cause, if there is one, in its
// detail.
func ReceiptWithRemedy(rec jobs.Receipt) jobs.Receipt {
	rec.Detail += causeRemedies[rec.Cause]
	return rec
}
