package main

// lacks is what this platform keeps from us, told once at the start.
const lacks = "macOS shows less of a program than Linux: a shell program that waits for a line is shown as running, with its last output; " +
	"one that waits for a password or a key is inferred from its terminal's mode, and its reply says so; " +
	"processes that left their session are not found when their job ends"
