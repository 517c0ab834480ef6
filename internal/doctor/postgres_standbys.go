package doctor

import (
	"context"
	"fmt"
)

func postgresStandbys(ctx context.Context, s *postgresServer) (answer, error) {
	var names, who string
	var all, waited, unseen int
	if err := s.ask(ctx, "postgres_standbys.sql", nil, &names, &all, &waited, &unseen, &who); err != nil {
		return answer{}, err
	}
	evidence := fmt.Sprintf("synchronous_standby_names is %q, %d standbys follow", names, all)
	if who != "" {
		evidence += ": " + who
	}
	switch {
	case unseen > 0:
		return unknown(evidence+", whose state this role may not see", postgresHidden)
	case names != "" && waited == 0:
		return fail(evidence+": every commit waits for one that is not there", "start the standby, or ALTER SYSTEM RESET synchronous_standby_names; SELECT pg_reload_conf()")
	case waited < all:
		return warn(evidence+": promote none that is async", "ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 (*)'; SELECT pg_reload_conf()")
	case all == 0:
		return pass("%s: none that could be promoted", evidence)
	}
	return pass("%s", evidence)
}

func postgresLogical(ctx context.Context, s *postgresServer) (answer, error) {
	var publications, subscribed string
	if err := s.ask(ctx, "postgres_logical.sql", []any{s.schema}, &publications, &subscribed); err != nil {
		return answer{}, err
	}
	if subscribed != "" {
		return fail("a subscription writes into "+s.schema+": "+subscribed, "leave the schema out of the publication, and ALTER SUBSCRIPTION … REFRESH PUBLICATION")
	}
	if publications != "" {
		return warn("published with tables of "+s.schema+": "+publications,
			"leave the schema out (ALTER PUBLICATION … DROP TABLE); at a move of the database, stop the writers first")
	}
	return pass("no publication and no subscription has a table of %s", s.schema)
}

func postgresVacuum(ctx context.Context, s *postgresServer) (answer, error) {
	var on, counts, left string
	if err := s.ask(ctx, "postgres_vacuum.sql", []any{s.schema}, &on, &counts, &left); err != nil {
		return answer{}, err
	}
	evidence := fmt.Sprintf("autovacuum is %s, track_counts is %s", on, counts)
	switch {
	case left != "":
		return warn(evidence+", and passes over "+left, "ALTER TABLE … RESET (autovacuum_enabled)")
	case on != "on" || counts != "on":
		return warn(evidence, "ALTER SYSTEM RESET autovacuum; ALTER SYSTEM RESET track_counts; SELECT pg_reload_conf()")
	}
	return pass("%s", evidence)
}

func postgresRoom(ctx context.Context, s *postgresServer) (answer, error) {
	var most, used int
	if err := s.ask(ctx, "postgres_room.sql", nil, &most, &used); err != nil {
		return answer{}, err
	}
	evidence := fmt.Sprintf("%d of %d connections are used", used, most)
	if float64(used) > full*float64(most) {
		return warn(evidence, "ALTER SYSTEM SET max_connections, and restart; or smaller pools")
	}
	return pass("%s", evidence)
}
