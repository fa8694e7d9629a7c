package main

// lacks is what this platform keeps from us: nothing.
const lacks = ""
