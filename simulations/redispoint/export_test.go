package redispoint

// Writes reports whether commands of that name write.
func Writes(name string) bool { return !reads[name] && !overhead[name] }
