//go:build !linux

package main

import (
	"errors"
	"time"
)

// errLinux: the link needs Linux's sleep, and the CPU time of other processes needs
// /proc.
var errLinux = errors.New("bench measures on Linux only")

func preciseSleep()         {}
func sleep(d time.Duration) { time.Sleep(d) }

func ownCPU() (time.Duration, error)         { return 0, errLinux }
func childrenCPU(int) (time.Duration, error) { return 0, errLinux }
func parentOf(int) (int, error)              { return 0, errLinux }
