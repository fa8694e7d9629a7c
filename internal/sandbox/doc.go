// Package sandbox says how a program is confined by bubblewrap: which arguments make the mounts and
// namespaces, which system calls are refused, and which variables are left out.
//
// A [Box] is planned outside, from a [Config], before anything runs. Planning checks every path, and
// fails rather than confines less than was asked for. What a job could have changed while an earlier
// sandbox ran is hostile input: links in the workspace, the file .git, and the directory of the
// sandbox itself. A path that leads through such a place must end there.
//
// bubblewrap resolves each path again when it mounts it, so a job of another sandbox in the same
// workspace can swap a directory for a link in between. Therefore a Box has seals: the first process
// inside calls [Broken] before it does anything else, and compares what was mounted with what was
// checked. The same comparison notices later that a program outside has replaced a protected file.
//
// Only options of bubblewrap 0.4.0 are used. The package starts nothing; its callers do. Everything
// here is for Linux. Begin with New.
package sandbox
