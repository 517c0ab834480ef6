package otelfence_test

import (
	"context"
	"log/slog"
	"time"

	"github.com/fencepost/fencepost/token"
)

// logging needs no OpenTelemetry: it says what somebody should look at.
func logging(log *slog.Logger) token.Observer {
	return token.Observer{
		Lost: func(ctx context.Context, tok token.Token, held time.Duration, err error) {
			log.WarnContext(ctx, "lease lost", "token", tok.String(), "held", held, "error", err)
		},
		Collided: func(ctx context.Context, tok token.Token, err error) {
			log.ErrorContext(ctx, "number granted twice", "token", tok.String(), "error", err)
		},
	}
}

func Example_slog() {
	_ = token.Locker{Observer: logging(slog.Default())}
}
