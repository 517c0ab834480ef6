//go:build !linux

package run

// dieWithParent does nothing: on this system only the watchdog ends the program.
func dieWithParent(int) error { return nil }

func becomeSubreaper() {}
