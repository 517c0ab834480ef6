package crowd

import "github.com/fencepost/fencepost/bench/measure"

// Compared is a side, and what it is compared with.
type Compared struct {
	Name    string // what the rows begin with
	Side    string
	Floor   string   // the side that is a channel
	Trips   []string // the sides that ask the server, one at least
	Sent    string   // what is counted: commands, or packets
	Targets Targets
}

// Targets are the highest that is good enough, and of fairness the lowest. 0 means
// that there is none.
type Targets struct{ HandOver, Wait, Sent, Fairness float64 }

// Ratios are all that is read off the side.
func (c Compared) Ratios() []measure.Ratio {
	var ratios []measure.Ratio
	trip := func(side string) measure.Value { return measure.Value{Side: side, Quantity: RoundTrip} }
	floor := func(quantity string) measure.Value { return measure.Value{Side: c.Floor, Quantity: quantity} }
	for _, side := range c.Trips {
		ratios = append(ratios, measure.Ratio{
			Name: HandOverP50, Baseline: side,
			Of: c.own(HandOverP50), Over: trip(side), Target: c.Targets.HandOver,
		})
	}
	ratios = append(ratios,
		measure.Ratio{Name: HandOverP99, Baseline: c.Trips[0], Of: c.own(HandOverP99), Over: trip(c.Trips[0])},
		measure.Ratio{Name: WaitP99, Baseline: c.Floor, Of: c.own(WaitP99), Over: floor(WaitP99), Target: c.Targets.Wait},
		measure.Ratio{Name: Rate, Baseline: c.Floor, Of: c.own(Rate), Over: floor(Rate)},
		measure.Ratio{Name: c.Sent + " an acquire", Baseline: "one", Of: c.own(Sent), Target: c.Targets.Sent},
		measure.Ratio{
			Name: Fairness, Baseline: "all as often", Of: c.own(Fairness), Target: c.Targets.Fairness, AtLeast: true,
		})
	for i := range ratios {
		ratios[i].Name = c.Name + ": " + ratios[i].Name
	}
	return ratios
}

func (c Compared) own(quantity string) measure.Value {
	return measure.Value{Side: c.Side, Quantity: quantity}
}
