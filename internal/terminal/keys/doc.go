// Package keys says which bytes the keys of a keyboard send to a terminal, as xterm sends them
// (https://invisible-island.net/xterm/ctlseqs/ctlseqs.html), and follows in a program's output the
// modes that change these bytes.
//
// A name is one of [Names], such as enter, or a chord: ctrl-c, alt-x, shift-tab, ctrl-alt-left, also
// spelled C-c, M-x, S-Tab and ^C. The cursor keys have two forms, of which the program chooses one
// by a mode of the terminal; see [Modes].
//
// The package holds no terminal and knows no job. Begin with the example, then [Parse].
package keys
