// Package installer knows what pip and uv read and what they print: it cuts the text of an install
// into their arguments, and says in a line what their output means.
//
// [Parse] does only what pip and uv can't do themselves: relative paths start in the workspace, and
// options are refused except the few that name a file or a directory. The installer parses each
// argument. No text stands where an installer reads options.
//
// [Cause] says why an installer failed. If a pattern recognizes the failure, the text says how to
// fix it, and else it quotes the installer.
//
// The package starts nothing and knows no environment. It reads the disk only to see whether a
// path exists. Begin with Parse in arguments.go, and Cause in output.go.
package installer
