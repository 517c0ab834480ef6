package redistoken_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/internal/testenv"
	"github.com/fencepost/fencepost/token"
	"github.com/fencepost/fencepost/token/redistoken"
)

// hazard R8
func TestKeysOfAResourceShareASlot(t *testing.T) {
	t.Parallel()
	client, prefix := testenv.Redis(t)
	keys := &keyHook{}
	client.AddHook(keys)
	iss := &redistoken.Issuer{Client: client, Prefix: prefix}
	for _, name := range []string{
		"account/42", "{}", "{", "}", "a{b}c", "{a}{b}", "}{", "konto/größe", ":{7}:lock:x", strings.Repeat("{x}", 66),
	} {
		grant, err := iss.Acquire(t.Context(), name, "a", long)
		require.NoError(t, err)
		require.Len(t, keys.last, 3)
		lock, counter, line := keys.last[0], keys.last[1], keys.last[2]
		require.Equal(t, slot(lock), slot(counter), "%s and %s", lock, counter)
		require.Equal(t, slot(lock), slot(line), "%s and %s", lock, line)
		require.Equal(t, lockKey(prefix, name), lock, "the format")
		require.Equal(t, counterKey(prefix, name), counter, "the format")
		require.Equal(t, lineKey(prefix, name), line, "the format")
		_, err = iss.Renew(t.Context(), grant.Token, long)
		require.NoError(t, err)
		require.Equal(t, []string{lock}, keys.last)
		require.NoError(t, iss.Release(t.Context(), grant.Token))
		require.Equal(t, []string{lock, counter, line}, keys.last)
	}

	naive := func(name string) (lock, counter int) { return slot("lock:" + name), slot("counter:" + name) }
	lock, counter := naive(resource)
	require.NotEqual(t, lock, counter, "keys without a hash tag must part")
	lock, counter = slot("lock:{a}{b}"), slot("counter:{{a}{b}}")
	require.NotEqual(t, lock, counter, "a tag made of the resource's name must part")
}

func TestBucketsAreStable(t *testing.T) {
	t.Parallel()
	client, prefix := testenv.Redis(t)
	_, err := (&redistoken.Issuer{Client: client, Prefix: prefix}).Acquire(t.Context(), "account/42", "a", long)
	require.NoError(t, err)
	// Literals: programs of all versions must find the same keys.
	require.Equal(t, "a", client.Get(t.Context(), prefix+":{50}:lock:account/42").Val())
	require.NotEmpty(t, client.Get(t.Context(), prefix+":{50}:counter").Val())
}

func TestBracesInPrefixAreRefused(t *testing.T) {
	t.Parallel()
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer client.Close()
	tok := token.Token{Resource: resource, Number: 1, Holder: "a"}
	for _, prefix := range []string{"{app}", "a{}", "{", "}"} {
		iss := &redistoken.Issuer{Client: client, Prefix: prefix}
		_, err := iss.Acquire(t.Context(), resource, "a", long)
		require.ErrorContains(t, err, "contains a brace")
		_, err = iss.Renew(t.Context(), tok, long)
		require.ErrorContains(t, err, "contains a brace")
		require.ErrorContains(t, iss.Release(t.Context(), tok), "contains a brace")
	}
}

// slot is HASH_SLOT of the Redis cluster specification: CRC-16/XMODEM of the
// hash tag, or of the key when the tag is empty or missing.
func slot(key string) int {
	if i := strings.IndexByte(key, '{'); i >= 0 {
		if j := strings.IndexByte(key[i+1:], '}'); j > 0 {
			key = key[i+1 : i+1+j]
		}
	}
	var crc uint16
	for _, b := range []byte(key) {
		crc ^= uint16(b) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return int(crc) % 16384
}

func TestSlotFollowsTheSpecification(t *testing.T) {
	t.Parallel()
	require.Equal(t, 0x31C3, slot("123456789"), "the specification's example")
	require.Equal(t, slot("{user1000}.following"), slot("{user1000}.followers"))
	require.Equal(t, slot("foo{bar}{zap}"), slot("bar"))
	require.Equal(t, slot("foo{{bar}}zap"), slot("{bar"))
	require.NotEqual(t, slot("foo{}{bar}"), slot("bar"))
}

// keyHook remembers the keys of the last script.
type keyHook struct {
	mu   sync.Mutex
	last []string
}

func (h *keyHook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *keyHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h *keyHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if args := cmd.Args(); strings.HasPrefix(cmd.Name(), "eval") {
			h.mu.Lock()
			h.last = nil
			for _, key := range args[3 : 3+args[2].(int)] {
				h.last = append(h.last, key.(string))
			}
			h.mu.Unlock()
		}
		return next(ctx, cmd)
	}
}
