package wire

import "github.com/redis/go-redis/v9"

// Redis returns a client with go-redis's own settings, whose connections are
// counted.
func (c *Counter) Redis(url string) (*redis.Client, error) {
	options, err := redis.ParseURL(url)
	if err != nil {
		return nil, err
	}
	options.Dialer = c.Dial
	return redis.NewClient(options), nil
}
