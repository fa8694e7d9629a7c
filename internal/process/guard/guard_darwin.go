package guard

// wakeWithParent does nothing: this system has no such signal.
func wakeWithParent() {}
