package failpoint

// Exported reports whether the registry has an entry of id.
func Exported(id string) bool {
	_, ok := exported.Load(id)
	return ok
}
