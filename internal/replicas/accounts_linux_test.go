package replicas_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"

	"github.com/jackc/pgx/v5"

	"github.com/fencepost/fencepost/httpguard"
	"github.com/fencepost/fencepost/internal/child"
	"github.com/fencepost/fencepost/token"
)

// standHeader says where the replica is to be watched, or stopped.
const standHeader = "Stand"

type update func(ctx context.Context, resource string, fn func(tx pgx.Tx) error) error

// accounts are the handlers of one way of the service.
type accounts struct {
	ledger
	update update
	say    func(event)
}

// entry is the body of a write, a line each.
type entry struct {
	ID      string // of this very write
	Balance int    // the new one, as the caller computed it
}

// get admits before it reads: a GET with a token claims.
func (a *accounts) get(w http.ResponseWriter, r *http.Request) {
	var balance int
	err := a.update(r.Context(), "account/"+r.PathValue("id"), func(tx pgx.Tx) error {
		return tx.QueryRow(r.Context(), a.reads, r.PathValue("id")).Scan(&balance)
	})
	if err != nil {
		httpguard.Error(w, r, err)
		return
	}
	fmt.Fprint(w, balance)
}

func (a *accounts) put(w http.ResponseWriter, r *http.Request) {
	e, err := a.receive(r)
	if err == nil {
		err = a.write(r.Context(), r.PathValue("id"), e)
	}
	if err != nil {
		httpguard.Error(w, r, err)
	}
}

// receive reads the body. The middleware has let the request in before.
func (a *accounts) receive(r *http.Request) (e entry, err error) {
	body := bufio.NewReader(r.Body)
	if _, err := fmt.Fscanln(body, &e.ID); err != nil {
		return e, err
	}
	if stand(r.Header.Get(standHeader)) == halfway {
		a.say(event{Halfway: true})
	}
	if _, err := fmt.Fscanln(body, &e.Balance); err != nil {
		return e, err
	}
	if stand(r.Header.Get(standHeader)) == admitted {
		return e, child.StopThread()
	}
	return e, nil
}

// write sets the balance, and enters into the ledger who did it.
func (a *accounts) write(ctx context.Context, id string, e entry) error {
	tok, err := token.FromContext(ctx, "account/"+id)
	if err != nil {
		return err
	}
	return a.update(ctx, tok.Resource, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, a.writes, id, e.Balance, e.ID, tok.Number)
		return err
	})
}
