package seal_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fencepost/fencepost/token/seal"
)

func TestKeysAreChangedWithoutAGap(t *testing.T) {
	t.Parallel()
	last, next := key("2026-10", 'a'), key("2026-11", 'b')
	issuer, service := ring(t, last), ring(t, last)
	sealed := func() seal.Sealed {
		s, err := issuer.Seal(account, time.Time{})
		require.NoError(t, err)
		return s
	}
	old := sealed()
	require.NoError(t, service.Verify(old))

	require.NoError(t, service.Replace(last, next)) // all can verify the new key
	require.NoError(t, issuer.Replace(last, next))
	require.Equal(t, "2026-10", sealed().Key)
	require.NoError(t, service.Verify(sealed()))

	require.NoError(t, issuer.Replace(next, last)) // all seal with it
	require.Equal(t, "2026-11", sealed().Key)
	require.NoError(t, service.Verify(sealed()))
	require.NoError(t, service.Verify(old))

	require.NoError(t, service.Replace(next)) // the old one is left out
	require.NoError(t, service.Verify(sealed()))
	refused(t, service.Verify(old), seal.UnknownKey)

	// An id that comes back with another secret does not bring old seals back.
	require.NoError(t, service.Replace(key("2026-10", 'c')))
	refused(t, service.Verify(old), seal.Wrong)
}

func TestKeysThatAreNoneAreRefusedAndChangeNothing(t *testing.T) {
	t.Parallel()
	good := key("2026-11", 'a')
	r := ring(t, good)
	s, err := r.Seal(account, time.Time{})
	require.NoError(t, err)
	for name, keys := range map[string][]seal.Key{
		"none":                {},
		"the zero key":        {{}},
		"a secret too short":  {{ID: "b", Secret: good.Secret[1:]}},
		"a bad one behind":    {key("b", 'b'), {ID: "c"}},
		"two keys of one id":  {good, key("b", 'b'), key("2026-11", 'c')},
		"the same key twice":  {good, good},
		"an id with a space":  {key("2026 11", 'b')},
		"an id with a line":   {key("2026\n11", 'b')},
		"an id that is empty": {key("", 'b')},
	} {
		require.Error(t, r.Replace(keys...), name)
		none, err := seal.New(keys...)
		require.Error(t, err, name)
		require.Nil(t, none)
		require.NoError(t, r.Verify(s), name)
	}
}

func TestASecretIsCopied(t *testing.T) {
	t.Parallel()
	k := key("2026-11", 'a')
	r := ring(t, k)
	clear(k.Secret) // wiped, as it should be
	s, err := r.Seal(account, time.Time{})
	require.NoError(t, err)
	require.NoError(t, ring(t, key("2026-11", 'a')).Verify(s))
	refused(t, ring(t, k).Verify(s), seal.Wrong)
}

// A reader finds all the old keys or all the new ones. In both sets both ids
// are known, with secrets exchanged, so that a mixture would refuse a seal.
func TestKeysAreReplacedWhileInUse(t *testing.T) {
	t.Parallel()
	sets := [2][]seal.Key{{key("x", 'a'), key("y", 'b')}, {key("x", 'b'), key("y", 'a')}}
	r := ring(t, sets[0]...)
	judges := [2]*seal.Ring{ring(t, sets[0]...), ring(t, sets[1]...)}
	stop := make(chan struct{})
	var users sync.WaitGroup
	for range 4 {
		users.Go(func() {
			for range 2000 {
				s, err := r.Seal(account, time.Time{})
				if !assert.NoError(t, err) || !assert.Equal(t, "x", s.Key) {
					return
				}
				first, second := judges[0].Verify(s), judges[1].Verify(s)
				if !assert.NotEqual(t, first == nil, second == nil, "exactly one set of keys made it") {
					return
				}
			}
		})
	}
	var replacer sync.WaitGroup
	replacer.Go(func() {
		for i := 1; ; i++ {
			select {
			case <-stop:
				return
			default:
				assert.NoError(t, r.Replace(sets[i%2]...))
			}
		}
	})
	users.Wait()
	close(stop)
	replacer.Wait()
}
