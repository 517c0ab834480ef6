package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/fencepost/fencepost/internal/kernel"
)

// mutantSchedules is how many seeds a mutant gets where no number is given.
const mutantSchedules = 100

// deaths is what is printed of the mutants, as JSON.
type deaths struct {
	Mutants   []death `json:"mutants"`
	Survivors int     `json:"survivors"`
}

type death struct {
	kernel.Death
	// Took is how long it was played, in milliseconds.
	Took float64 `json:"took_ms"`
}

func (c *exploreCmd) mutants(ctx context.Context, std streams, plan kernel.Plan) error {
	var all deaths
	for _, m := range kernel.Mutants() {
		began := time.Now()
		d, err := kernel.Kill(ctx, m, plan)
		if err != nil {
			return err
		}
		if d.Seed == 0 {
			all.Survivors++
		}
		all.Mutants = append(all.Mutants, death{Death: d, Took: ms(time.Since(began).Round(10 * time.Microsecond))})
	}
	if err := c.printMutants(std, plan, all); err != nil {
		return err
	}
	if all.Survivors > 0 {
		return errNo
	}
	return nil
}

func (c *exploreCmd) printMutants(std streams, plan kernel.Plan, all deaths) error {
	if c.JSON {
		return json.NewEncoder(std.out).Encode(all)
	}
	_, err := fmt.Fprint(std.out, graves(plan, all, newStyle(std.out)))
	return err
}

func graves(plan kernel.Plan, all deaths, s style) string {
	const heading, line = "  %-8s  %-47s  %10s  %-8s  %9s", "  %-8s  %-47s  %10d  %-8s  %6.1f ms"
	lines := []string{s.dim(fmt.Sprintf(heading, "whose", "mistake", "found by", "rule", "after"))}
	for _, d := range all.Mutants {
		text := fmt.Sprintf(line, d.Place, d.Name, d.Seed, d.Rule, d.Took)
		if d.Seed == 0 {
			text = s.red(fmt.Sprintf(heading, d.Place, d.Name, "survives", "", ""))
		}
		lines = append(lines, text)
	}
	end := s.green(fmt.Sprintf("all %d mutants were found.", len(all.Mutants)))
	if all.Survivors > 0 {
		end = s.red(fmt.Sprintf("%d of %d mutants survive %d seeds.", all.Survivors, len(all.Mutants), plan.Schedules))
	}
	return fmt.Sprintf("%s\n\n%s%s\n", strings.Join(lines, "\n"), s.bold("Verdict: "), end)
}
