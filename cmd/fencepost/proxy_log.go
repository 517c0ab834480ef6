package main

import (
	"context"
	"errors"
	"io"
	"log"
	"log/slog"
	"time"

	"github.com/fencepost/fencepost/guard"
	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/token"
)

// proxyLog writes one line for each request that is refused or fails, and with
// --access-log for all others. No line has a mark, a query or a body.
type proxyLog struct {
	*slog.Logger
	access bool
}

func newProxyLog(out io.Writer, format string, access bool) *proxyLog {
	var handler slog.Handler = slog.NewTextHandler(out, nil)
	if format == "json" {
		handler = slog.NewJSONHandler(out, nil)
	}
	// What the library logs of a request belongs to that request's line.
	slog.SetDefault(slog.New(gathered{handler}))
	return &proxyLog{slog.New(handler), access}
}

// standard is for those who know no other.
func (l *proxyLog) standard() *log.Logger {
	return slog.NewLogLogger(l.Handler(), slog.LevelWarn)
}

// told writes the line of a request that is over.
func (l *proxyLog) told(e *exchange, a *answer) {
	level, text := slog.LevelInfo, "passed"
	switch {
	case a.status >= 500 && e.err != nil:
		level, text = slog.LevelError, "failed"
	case e.err != nil:
		level, text = slog.LevelWarn, "refused"
	case !a.whole:
		level, text = slog.LevelWarn, "cut off"
	case !l.access:
		return
	}
	attributes := append(e.attributes(e.err), slog.Int("status", a.status), slog.Duration("duration", time.Since(e.begun)))
	if e.err != nil {
		attributes = append(attributes, slog.Any("error", e.err))
	}
	l.LogAttrs(context.Background(), level, text, attributes...)
}

// observed is told in observe-only mode what would have been refused.
func (l *proxyLog) observed(ctx context.Context, err error) {
	attributes := append(exchangeOf(ctx).attributes(err), slog.Any("error", err))
	l.LogAttrs(ctx, slog.LevelWarn, "observed", attributes...)
}

// attributes say what the request was about, and whose it was.
func (e *exchange) attributes(err error) []slog.Attr {
	attributes := []slog.Attr{
		slog.String("method", e.method), slog.String("path", e.request.URL.EscapedPath()), slog.String("client", e.request.RemoteAddr),
	}
	resource, tok := e.about(err)
	if resource != "" {
		attributes = append(attributes, slog.String("resource", resource))
	}
	if tok.Number != 0 {
		attributes = append(attributes, slog.Int64("number", tok.Number), slog.String("holder", tok.Holder))
	}
	return attributes
}

// about returns the resource that err is about, or the request's first one, and
// the caller's token of it.
func (e *exchange) about(err error) (string, token.Token) {
	var resource string
	if len(e.resources) > 0 {
		resource = e.resources[0]
	}
	var stale *guard.StaleError
	var missing *token.MissingError
	switch {
	case errors.As(err, &stale):
		return stale.Token.Resource, stale.Token
	case errors.As(err, &missing):
		return missing.Resource, token.Token{}
	}
	toks, _ := httpguard.Parse(e.request.Header[httpguard.Header]) // a malformed field has none
	for _, tok := range toks {
		if tok.Resource == resource {
			return resource, tok
		}
	}
	return resource, token.Token{}
}

// gathered keeps what is logged of a request for its line.
type gathered struct{ slog.Handler }

func (g gathered) Handle(ctx context.Context, record slog.Record) error {
	e := exchangeOf(ctx)
	if e == nil {
		return g.Handler.Handle(ctx, record)
	}
	record.Attrs(func(a slog.Attr) bool {
		if err, ok := a.Value.Any().(error); ok {
			e.err = err
		}
		return true
	})
	return nil
}

func (g gathered) WithAttrs(attrs []slog.Attr) slog.Handler {
	return gathered{g.Handler.WithAttrs(attrs)}
}
func (g gathered) WithGroup(name string) slog.Handler { return gathered{g.Handler.WithGroup(name)} }
