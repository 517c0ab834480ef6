package replicas_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/internal/child"
)

// ask makes a request and returns what the answer says. A refusal is the
// transport's error.
func (c *caller) ask(ctx context.Context, method string, body io.Reader) (string, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+c.Before+c.Way+"/accounts/"+c.Account, body)
	if err != nil {
		return "", err
	}
	if method == http.MethodPut {
		req.Header.Set(standHeader, string(c.Stand))
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	switch {
	case err != nil:
		return "", err
	case resp.StatusCode == http.StatusServiceUnavailable:
		return "", fmt.Errorf("%w: %s", guard.ErrRetryable, text)
	case resp.StatusCode != http.StatusOK:
		return "", fmt.Errorf("%w: %s: %s", guard.ErrUnknown, resp.Status, text)
	}
	return string(text), nil
}

// body is an [entry]. Where the caller is to be stopped in the middle of it, its
// length is not known to the transport, which then sends each half when it has
// it: the first is on the wire when the second is asked for.
func (c *caller) body(id string, balance int) io.Reader {
	first, second := id+"\n", fmt.Sprintln(balance)
	if c.Stand != halfway {
		return strings.NewReader(first + second)
	}
	return io.MultiReader(strings.NewReader(first), stopping{}, strings.NewReader(second))
}

// stopping is an empty reader, in the middle of which this process is stopped.
type stopping struct{}

func (stopping) Read([]byte) (int, error) {
	if err := child.StopThread(); err != nil {
		return 0, err
	}
	return 0, io.EOF
}
