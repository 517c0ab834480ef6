package httpguard

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"

	"github.com/fencepost/fencepost/guard"
)

// maxProblem is how much of an answer is read to see what it says. Ours have
// less than a tenth of it.
const maxProblem = 8 << 10

// refusal returns what resp says if it refuses a token that req carries, and
// nil if it says anything else, with its body as it was. A host that was not
// named was sent no token, and is not believed.
func (t Transport) refusal(req *http.Request, resp *http.Response) error {
	if resp.StatusCode != http.StatusPreconditionFailed || !t.named(req.URL.Host) {
		return nil
	}
	lines, _ := carried(req.Header)
	toks, err := Parse(lines)
	if err != nil || len(toks) == 0 {
		return nil
	}
	p, is := readProblem(resp)
	if !is || p.Type != ProblemStale {
		return nil
	}
	_ = resp.Body.Close()
	refused := &guard.StaleError{}
	if tok, sent := find(toks, p.Resource); sent {
		refused.Token = tok
	} else if len(toks) == 1 && p.Resource == "" {
		refused.Token = toks[0]
	} else {
		return fmt.Errorf("httpguard: %s does not say which token: %w", req.URL.Host, guard.ErrStale)
	}
	return fmt.Errorf("httpguard: %s: %w", req.URL.Host, refused)
}

// writes reports whether req is a guarded write. A request without tokens is none.
func writes(req *http.Request) bool {
	_, guarded := carried(req.Header)
	return guarded && !Safe(req.Method)
}

// uncertain adds to the error of a request that it may have been applied all
// the same. A connection that could not be made says so only if it was the first.
func uncertain(req *http.Request, err error, attempts int32) error {
	var op *net.OpError
	if !writes(req) || attempts == 0 && errors.As(err, &op) && op.Op == "dial" {
		return err
	}
	return errors.Join(fmt.Errorf("httpguard: %s: %w", req.URL.Host, guard.ErrUnknown), err)
}

// refusedAgain is the refusal of an attempt that was not the first. It is no
// refusal: what that one came to nobody has said.
func refusedAgain(req *http.Request, refusal error) error {
	return fmt.Errorf("httpguard: %s: %w: an attempt had no answer, and the next one's was %q", req.URL.Host, guard.ErrUnknown, refusal.Error())
}

// readProblem reads resp's body, and puts back what it has read.
func readProblem(resp *http.Response) (p problem, is bool) {
	kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil || kind != problemType {
		return problem{}, false
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxProblem))
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(body), resp.Body), resp.Body}
	if err == nil {
		err = json.Unmarshal(body, &p)
	}
	return p, err == nil
}
