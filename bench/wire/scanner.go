package wire

// scanner finds the ends of commands in what a client sends, which is an array of
// strings each (https://redis.io/docs/latest/develop/reference/protocol-spec):
//
//	*2\r\n $3\r\nGET\r\n $1\r\nk\r\n
//
// What is no such array, as everything that is sent to PostgreSQL, has none.
type scanner struct {
	strings int  // still to come of this command
	skip    int  // bytes of a string and its end, still to come
	number  int  // of the line that is being read
	kind    byte // what the line is about: '*', '$', or 0 before it
}

// scan returns how many commands end in p.
func (s *scanner) scan(p []byte) (ended int64) {
	for i := 0; i < len(p); i++ {
		if s.skip > 0 {
			n := min(s.skip, len(p)-i)
			s.skip -= n
			i += n - 1
			if s.skip == 0 && s.strings == 0 {
				ended++
			}
			continue
		}
		s.line(p[i])
	}
	return ended
}

// line takes one byte of a line that says how many or how long.
func (s *scanner) line(b byte) {
	switch {
	case b == '*' || b == '$':
		s.kind, s.number = b, 0
	case b >= '0' && b <= '9':
		s.number = 10*s.number + int(b-'0')
	case b == '\n' && s.kind == '*':
		s.kind, s.strings = 0, s.number
	case b == '\n' && s.kind == '$':
		s.kind, s.skip = 0, s.number+len("\r\n")
		s.strings--
	}
}
