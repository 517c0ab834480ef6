package subprocess

// Tail returns what tail keeps of these writes.
func Tail(writes ...string) string {
	var t tail
	for _, text := range writes {
		_, _ = t.Write([]byte(text))
	}
	return t.String()
}
