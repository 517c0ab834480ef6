//go:build !linux

package main

// dieWith: here only the minder sees to it.
func dieWith(int) error { return nil }

func adopt() {}
