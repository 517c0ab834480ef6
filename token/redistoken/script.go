package redistoken

import (
	"context"
	_ "embed" // the scripts

	"github.com/redis/go-redis/v9"
)

var (
	//go:embed acquire.lua
	acquireSource string
	//go:embed renew.lua
	renewSource string
	//go:embed release.lua
	releaseSource string

	acquireScript = script{redis.NewScript(acquireSource), 2}
	renewScript   = script{redis.NewScript(renewSource), 1}
	releaseScript = script{redis.NewScript(releaseSource), 1}
)

type script struct {
	*redis.Script
	keys int // how many of lock and counter it is given
}

// run runs s by its hash, and by its text where the server does not know it, as
// after a restart. It returns when ctx ends, if the answer is not there by then.
func (i *Issuer) run(ctx context.Context, s script, resource string, args ...any) (any, error) {
	keys, err := i.keys(resource)
	if err != nil {
		return nil, err
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	return await(ctx, func() (any, error) { return s.Run(ctx, i.Client, keys[:s.keys], args...).Result() })
}
