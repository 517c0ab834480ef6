package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/fencepost/fencepost/internal/cli"
	"github.com/fencepost/fencepost/lab/dst"
)

// mutantSchedules is the default number of seeds for each mutant.
const mutantSchedules = 100

// mutantResults is the JSON output of --mutants.
type mutantResults struct {
	Mutants   []mutantResult `json:"mutants"`
	Survivors int            `json:"survivors"`
}

type mutantResult struct {
	dst.MutantResult
	// Took is the duration, in milliseconds.
	Took float64 `json:"took_ms"`
}

func (c *exploreCmd) mutants(ctx context.Context, std cli.Streams, plan dst.Plan) error {
	var all mutantResults
	for _, m := range dst.Mutants() {
		began := time.Now()
		d, err := dst.Kill(ctx, m, plan)
		if err != nil {
			return err
		}
		if d.Seed == 0 {
			all.Survivors++
		}
		all.Mutants = append(all.Mutants, mutantResult{MutantResult: d, Took: ms(time.Since(began).Round(10 * time.Microsecond))})
	}
	if err := c.printMutants(std, plan, all); err != nil {
		return err
	}
	if all.Survivors > 0 {
		return cli.ErrNo
	}
	return nil
}

func (c *exploreCmd) printMutants(std cli.Streams, plan dst.Plan, all mutantResults) error {
	if c.JSON {
		return json.NewEncoder(std.Out).Encode(all)
	}
	_, err := fmt.Fprint(std.Out, mutantTable(plan, all, cli.NewStyle(std.Out)))
	return err
}

func mutantTable(plan dst.Plan, all mutantResults, s cli.Style) string {
	const heading, line = "  %-8s  %-47s  %10s  %-8s  %9s", "  %-8s  %-47s  %10d  %-8s  %6.1f ms"
	lines := []string{s.Dim(fmt.Sprintf(heading, "whose", "mistake", "found by", "rule", "after"))}
	for _, d := range all.Mutants {
		text := fmt.Sprintf(line, d.Place, d.Name, d.Seed, d.Rule, d.Took)
		if d.Seed == 0 {
			text = s.Red(fmt.Sprintf(heading, d.Place, d.Name, "survives", "", ""))
		}
		lines = append(lines, text)
	}
	end := s.Green(fmt.Sprintf("all %d mutants were found.", len(all.Mutants)))
	if all.Survivors > 0 {
		end = s.Red(fmt.Sprintf("%d of %d mutants survive %d seeds.", all.Survivors, len(all.Mutants), plan.Schedules))
	}
	return fmt.Sprintf("%s\n\n%s%s\n", strings.Join(lines, "\n"), s.Bold("Verdict: "), end)
}
