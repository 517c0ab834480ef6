//go:build !linux

package simulate_test

func stopping(string) int { return 1 }
