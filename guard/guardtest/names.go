package guardtest

import (
	"context"
	"strings"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/token"
)

// alike are pairs of different names that some collation, pattern or normal form treats
// as equal.
var alike = [][2]string{
	{"Worker-a", "worker-a"}, {"worker", "worker "}, {"worker", " worker"}, {"worker-1", "worker-10"},
	{"worker-10", "worker-1"}, {"a_c", "abc"}, {"a%", "abc"}, {"a*", "abc"}, {`a\`, `a\\`}, {"a'", "a''"},
	{"gr\u00fc\u00df", "gru\u0308\u00df"}, {"gr\u00fc\u00df", "gr\u00fcss"}, {"gr\u00fc\u00df", "GR\u00dc\u00df"},
	{"I", "\u0131"}, {"\uff11", "1"}, {"a\u00a0", "a "}, {"a\u200b", "a"}, {"01", "1"}, {"1e1", "10"},
}

// hostile are valid names that would end a statement, a pattern or a concatenated key too
// early if they were not quoted.
var hostile = []string{
	`a'; DROP TABLE fencepost_marks; --`, `"a"`, "`a`", `a\`, `$1 ?1 :a @a`, `%s%d`, `{a}:b`, `a/../b`,
	`$$a$$`, `E'\n'`, `NULL`, ` `, `a;b`, `größe`, `数`, `🔒`, "a\u2028b",
}

func resourceBytes(ctx context.Context, s guard.Store) error {
	for _, pair := range alike {
		r := fresh()
		one, other := r+pair[0], r+pair[1]
		if err := refusesAfter(ctx, s, tok(one, 32, "c"), tok(one, 33, "a"), tok(other, 32, "b")); err != nil {
			return err
		}
	}
	return nil
}

func holderBytes(ctx context.Context, s guard.Store) error {
	for _, pair := range alike {
		r := fresh()
		if err := refusesAfter(ctx, s, tok(r, 33, pair[1]), tok(r, 33, pair[0])); err != nil {
			return err
		}
	}
	return nil
}

// whole uses names of the maximum length that differ only in their last byte, and the
// hostile names.
func whole(ctx context.Context, s guard.Store) error {
	r := fresh()
	long := r + strings.Repeat("x", token.MaxNameBytes-len(r)-1)
	if err := admits(ctx, s, tok(long+"1", 33, "a"), tok(long+"2", 32, "a")); err != nil {
		return err
	}
	if err := refusesAfter(ctx, s, tok(r, 33, long+"2"), tok(r, 33, long+"1")); err != nil {
		return err
	}
	for _, name := range hostile {
		r := fresh() + name
		if err := refusesAfter(ctx, s, tok(r, 32, "b"), tok(r, 33, name)); err != nil {
			return err
		}
	}
	return nil
}
