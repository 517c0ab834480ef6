package main

import "syscall"

// memory returns the folder of a file system in memory with enough room for the servers of
// several packages, or "". A migrated schema is some 60 files, and a disk takes up to a
// millisecond to make one.
func memory() string {
	const (
		folder = "/dev/shm"
		tmpfs  = 0x01021994 // TMPFS_MAGIC of statfs(2)
		room   = 6 << 30
	)
	var s syscall.Statfs_t
	if err := syscall.Statfs(folder, &s); err != nil || s.Type != tmpfs || s.Bavail*uint64(s.Bsize) < room {
		return ""
	}
	return folder
}
