package guard_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

// allows is the rule stated over a history of admitted tokens, without a mark: none may
// be greater than tok, or equal to it and of another holder.
func allows(admitted []token.Token, tok token.Token) bool {
	if tok.Holder == "" || tok.Number < 1 {
		return false
	}
	for _, old := range admitted {
		if old.Number > tok.Number || old.Number == tok.Number && old.Holder != tok.Holder {
			return false
		}
	}
	return true
}

// FuzzMark reads pairs of bytes as numbers and holders. It has few different values, so
// that they meet.
func FuzzMark(f *testing.F) {
	f.Add([]byte{3, 1, 3, 1, 3, 2, 2, 1, 4, 2, 3, 1})
	f.Add([]byte{0, 1, 1, 0, 255, 1, 9, 1, 10, 1})
	f.Fuzz(func(t *testing.T, data []byte) {
		var (
			mark     guard.Mark
			memory   guard.Memory
			admitted []token.Token
		)
		for data = data[:min(len(data), 64)]; len(data) >= 2; data = data[2:] {
			tok := tok(int64(int8(data[0])), []string{"", "a", "b", "ab"}[data[1]%4])
			err := mark.Admits(tok)
			require.True(t, allows(admitted, tok) == (err == nil), "%+v after %+v: %v", tok, admitted, err)
			require.Equal(t, err, memory.Admit(t.Context(), tok))
			if err == nil {
				admitted = append(admitted, tok)
				mark = guard.Mark{Number: tok.Number, Holder: tok.Holder}
			}
			require.True(t, mark == memory.Mark(account), "%+v", admitted)
		}
	})
}
