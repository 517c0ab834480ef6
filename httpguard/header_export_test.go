package httpguard

// Scan is the short way of reading, Read the library's, and AppendSealed takes
// the one that will do.
var (
	Scan         = scan
	Read         = read
	AppendSealed = appendSealed
)
