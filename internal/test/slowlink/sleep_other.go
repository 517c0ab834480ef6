//go:build !linux

package slowlink

import "time"

// Sleeps of other systems are later. The programs of the lab measure on Linux.

func preciseSleep()         {}
func sleep(d time.Duration) { time.Sleep(d) }
