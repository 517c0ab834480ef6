package renew

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// usage is what was used up to a moment.
type usage struct {
	at            time.Time
	client, redis time.Duration
	packets       int64
	renewals      int64
}

func (g *Group) usage(ctx context.Context, renewals int64) (u usage, err error) {
	u = usage{at: time.Now(), packets: g.sent.Packets(), renewals: renewals}
	if u.client, err = clientCPU(); err != nil {
		return u, err
	}
	info, err := g.asks.Info(ctx, "cpu").Result()
	if err != nil {
		return u, err
	}
	for _, name := range []string{"used_cpu_sys", "used_cpu_user"} {
		spent, err := seconds(info, name)
		if err != nil {
			return u, err
		}
		u.redis += spent
	}
	return u, nil
}

// seconds reads a line of INFO.
func seconds(info, name string) (time.Duration, error) {
	for line := range strings.Lines(info) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), name+":"); ok {
			s, err := strconv.ParseFloat(text, 64)
			return time.Duration(s * float64(time.Second)), err
		}
	}
	return 0, fmt.Errorf("INFO has no %s", name)
}

// a second of which so much was used, in milliseconds.
func (u usage) perSecond(spent time.Duration, until usage) float64 {
	return float64(spent.Microseconds()) / 1e3 / until.at.Sub(u.at).Seconds()
}
