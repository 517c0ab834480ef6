package redisguard

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/fencepost/fencepost/guard"
)

// Once applies a unit of work once, however often it is repeated: after any error, by any
// holder of resource, in any process. The script writes as in [Guard.Eval], and records
// the unit under resource and its Key, with the script's result. If the unit is recorded,
// Once returns the first result, and the script does not run.
//
//   - A successor that repeats the unit gets the first result.
//   - A stale holder whose unit was applied gets its result, and otherwise the refusal.
//   - After [guard.ErrUnknown] the caller repeats Once: the record is found, or the script
//     did not run, and may still run once.
//   - A repeat is a write. A server that admits no token, such as a former master, returns
//     its error and no first result.
//
// The script, keys and args are those of Eval, and so are the result and the errors, with
// two differences. True and false are converted as without redis.setresp(3). And Redis
// does not roll back, so a script that fails is recorded too. What it had written stays,
// it does not run again, and each repeat returns [guard.ErrUnknown] joined with a
// [redis.Error]. A script that decides against a write should therefore return a value,
// and not an error. The record may have [guard.MaxResult] bytes: 41, and the result in
// MessagePack. A result that does not fit, or has more than 15 tables within one another,
// is recorded as such a failure.
//
// The unit is recorded before the script runs, as one that failed, and the result after
// it, in the same database and with full replication: the script may call SELECT,
// redis.set_repl and redis.setresp. After a SELECT the guard returns to the DB of the
// Client's options. If the connection had another one, or the script overwrites the
// record, as by FLUSHDB, the outcome is ErrUnknown.
//
// Once also returns
//
//   - [guard.ErrKeyReused] if the unit was applied with another Fingerprint;
//   - a [*token.InvalidError] if the Key is not valid;
//   - an error, and sends nothing, if keys contains the record's own key.
//
// A unit is recorded for [Guard.Retention], and a repeat after that is applied again. The
// record is a key with an expiry, so it needs the policy noeviction: any other may evict
// it earlier. A server that loses the record loses what the script wrote with it, if both
// have the same persistence: see the package documentation.
func (g *Guard) Once(ctx context.Context, resource string, unit guard.Unit, script string, keys []string, args ...any) (any, error) {
	keep, err := guard.RetentionOr(g.Retention)
	if err == nil {
		err = unit.Validate()
	}
	if err == nil {
		err = checkScript(script)
	}
	if err != nil {
		return nil, failed("once", resource, err)
	}
	w, err := g.write(ctx, resource)
	if err != nil {
		return nil, err
	}
	w.verb, w.script, w.keys, w.partial = "once", once(script), keys, true
	w.record = unitKey(w.mark, unit.Key)
	w.args = append(g.flat(ctx, args), string(unit.Sum()), max(1, keep.Milliseconds()), g.database())
	w.noteTried(ctx, unit.Key)
	return w.do(ctx)
}

// unitKey returns the key of a unit's record, which has the slot of the mark's key. A
// mark's key without a hash tag becomes the tag.
//
// https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#hash-tags
func unitKey(mark, key string) string {
	sum := sha256.Sum256([]byte(key))
	prefix := fmt.Sprintf("fencepost:once:%s:", hex.EncodeToString(sum[:16]))
	if _, after, has := strings.Cut(mark, "{"); has && strings.Index(after, "}") > 0 {
		return prefix + mark
	}
	return prefix + "{" + mark + "}"
}
