package routers_test

import (
	"io"
	"log/slog"
	"os"
	"testing"

	"github.com/gin-gonic/gin"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	gin.SetMode(gin.ReleaseMode)
	gin.DefaultErrorWriter = io.Discard // the stacks of panics that tests make
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, nil)))
	goleak.VerifyTestMain(m)
}
