package subprocess

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
)

// envRole holds the role of a child that runs its parent's program.
const envRole = "FENCEPOST_SUBPROCESS_ROLE"

// Self returns the command that starts this program again. [Serve] runs the role there.
func Self(name, role string) (Command, error) {
	self, err := os.Executable()
	if err != nil {
		return Command{}, fmt.Errorf("subprocess: %s: %w", name, err)
	}
	return Command{Name: name, Argv: []string{self}, Env: []string{envRole + "=" + role}}, nil
}

// Role returns the role in which [Self] started this process, or "".
func Role() string { return os.Getenv(envRole) }

// Serve runs the role of this process and exits, with status 1 after an error. It returns
// at once if the process has no role. It must be the first call of main or TestMain.
func Serve(roles map[string]func(*Parent) error) {
	name := Role()
	if name == "" {
		return
	}
	err := fmt.Errorf("subprocess: no such role: %s", name)
	if role := roles[name]; role != nil {
		err = role(NewParent(os.Stdin, os.Stdout))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Parent is the child's connection to its parent. Receive must not be called
// concurrently. Report is safe for concurrent use.
type Parent struct {
	in  *json.Decoder
	mu  sync.Mutex
	out *json.Encoder
}

// NewParent returns a Parent that reads messages from in and writes reports to out.
func NewParent(in io.Reader, out io.Writer) *Parent {
	return &Parent{in: json.NewDecoder(in), out: json.NewEncoder(out)}
}

// Receive reads the next message into v. The error wraps [io.EOF] if the parent has
// closed the input.
func (p *Parent) Receive(v any) error {
	if err := p.in.Decode(v); err != nil {
		return fmt.Errorf("subprocess: message: %w", err)
	}
	return nil
}

// Each calls do with each message until the parent closes the input or do returns an
// error.
func Each[M any](p *Parent, do func(M) error) error {
	for {
		var m M
		if err := p.Receive(&m); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := do(m); err != nil {
			return err
		}
	}
}

// UntilClosed returns a context that ends when the parent closes the input. After the
// call nothing can be received.
func (p *Parent) UntilClosed(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		_ = Each(p, func(json.RawMessage) error { return nil })
		cancel()
	}()
	return ctx, cancel
}

// Report sends v. It returns no error: if the parent does not read, it has ended, and the
// child's input ends too.
func (p *Parent) Report(v any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.out.Encode(v)
}
