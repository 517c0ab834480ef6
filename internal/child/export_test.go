package child

// Tail returns what is kept of these writes.
func Tail(writes ...string) string {
	var t tail
	for _, text := range writes {
		_, _ = t.Write([]byte(text))
	}
	return t.String()
}
