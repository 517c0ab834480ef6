package routers_test

import (
	"io"
	"log/slog"
	"os"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/fencepost/fencepost/internal/test/leaktest"
)

func TestMain(m *testing.M) {
	gin.SetMode(gin.ReleaseMode)
	gin.DefaultErrorWriter = io.Discard // discards the stacks of panics that tests cause
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, nil)))
	leaktest.Main(m)
}
