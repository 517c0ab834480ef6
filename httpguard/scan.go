package httpguard

import (
	"crypto/sha256"
	"encoding/base64"
	"strings"

	"github.com/fencepost/fencepost/internal/field"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/seal"
)

// scan appends the members of lines to dst, which is empty, if all of them are
// written as Format writes names that are plain ASCII. It allocates nothing but
// what dst lacks: names are parts of the lines. Of everything else it says
// nothing (ok is false), and the library is asked: only that one refuses, and
// what scan accepts the library reads in the same way.
func scan(dst []seal.Sealed, lines []string) (_ []seal.Sealed, ok bool) {
	for _, line := range lines {
		s := scanner{line}
		for more := true; more; more = s.comma() {
			if len(dst) == cap(dst) {
				more := min(1+strings.Count(s.rest, ","), MaxMembers)
				dst = append(make([]seal.Sealed, 0, len(dst)+more), dst...)
			}
			dst = append(dst, seal.Sealed{})
			member := &dst[len(dst)-1]
			if !s.member(member) || len(dst) > MaxMembers || has(dst[:len(dst)-1], member.Token.Resource) {
				return nil, false
			}
		}
		if s.rest != "" {
			return nil, false
		}
	}
	return dst, true
}

// scanner holds what is left of a line. Its methods take what they name from
// the front of it, and return the zero value where something else stands there.
type scanner struct{ rest string }

func (s *scanner) member(m *seal.Sealed) bool {
	m.Token.Number = s.integer()
	m.Token.Resource = s.text(`;r="`)
	m.Token.Holder = s.text(`;h="`)
	if m.Token.Number == 0 || m.Token.Resource == "" || m.Token.Holder == "" {
		return false
	}
	return !strings.HasPrefix(s.rest, ";k=") || s.seal(m)
}

func (s *scanner) seal(m *seal.Sealed) bool {
	if m.Key = s.text(`;k="`); !field.IsID(m.Key) {
		return false
	}
	if s.literal(";x=") {
		if m.Until = s.integer(); m.Until == 0 {
			return false
		}
	}
	return s.literal(";s=:") && s.code(&m.Code) && s.literal(":")
}

func (s *scanner) literal(text string) bool {
	rest, ok := strings.CutPrefix(s.rest, text)
	s.rest = rest
	return ok
}

// comma takes what stands between two members. Behind a last comma there is no
// member, and that is what the caller finds.
func (s *scanner) comma() bool {
	return s.literal(", ") || s.literal(",")
}

// integer takes 1 to 15 digits (RFC 9651 §3.3.1), the first of them not zero.
func (s *scanner) integer() (n int64) {
	i := 0
	for ; i < len(s.rest) && i < 15 && '0' <= s.rest[i] && s.rest[i] <= '9'; i++ {
		n = 10*n + int64(s.rest[i]-'0')
	}
	if i == 0 || s.rest[0] == '0' {
		return 0
	}
	s.rest = s.rest[i:]
	return n
}

// text takes open, which ends with a quote, and the String behind it (§3.3.3),
// if that has no escapes and can be a name: then it is a part of the line.
func (s *scanner) text(open string) string {
	if !s.literal(open) {
		return ""
	}
	end := strings.IndexByte(s.rest, '"')
	if end < 0 || end > token.MaxName {
		return ""
	}
	for i := range end {
		if c := s.rest[i]; c < ' ' || c > '~' || c == '\\' {
			return ""
		}
	}
	text := s.rest[:end]
	s.rest = s.rest[end+1:]
	return text
}

const codeText = (sha256.Size + 2) / 3 * 4

// code takes base64 of exactly so many bytes.
func (s *scanner) code(code *[sha256.Size]byte) bool {
	if len(s.rest) < codeText {
		return false
	}
	// Copied, since the decoder wants bytes. It may write a byte more than a
	// code has, and passes over line ends, of which each leaves a code shorter.
	var text [codeText]byte
	var raw [codeText / 4 * 3]byte
	copy(text[:], s.rest)
	n, err := base64.StdEncoding.Decode(raw[:], text[:])
	if err != nil || n != len(code) {
		return false
	}
	copy(code[:], raw[:])
	s.rest = s.rest[codeText:]
	return true
}
