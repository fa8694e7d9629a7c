// Package escape reads the escape sequences in the output of terminal programs: where each begins and
// ends ([Scan]), also in output that comes in pieces ([Reader]), and which modes they set ([Modes]).
//
// ECMA-48 (https://ecma-international.org/publications-and-standards/standards/ecma-48/) and xterm
// (https://invisible-island.net/xterm/ctlseqs/ctlseqs.html) define the sequences.
// An ESC ends a sequence and begins another one, as on a terminal.
//
// charmbracelet/x/ansi is not used: its DecodeSequence panics on a sequence of more than 32 parameters
// (v0.11.7).
package escape
