package otelfence_test

import (
	"context"
	"log/slog"
	"time"

	"github.com/fencepost/fencepost/lock"
	"github.com/fencepost/fencepost/token"
)

// logging needs no OpenTelemetry: it logs what needs attention.
func logging(log *slog.Logger) lock.Hooks {
	return lock.Hooks{
		Lost: func(ctx context.Context, tok token.Token, held time.Duration, err error) {
			log.WarnContext(ctx, "lease lost", "token", tok.String(), "held", held, "error", err)
		},
		Collided: func(ctx context.Context, tok token.Token, err error) {
			log.ErrorContext(ctx, "number granted twice", "token", tok.String(), "error", err)
		},
	}
}

func Example_slog() {
	_ = lock.Locker{Hooks: logging(slog.Default()), DangerouslyWithoutClaim: true}
}
