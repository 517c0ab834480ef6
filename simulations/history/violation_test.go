package history_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAVerdictIsATimeLine(t *testing.T) {
	t.Parallel()
	for want, text := range map[string]string{
		`
alone: At any time one holder has an unexpired lease.
account/42: a and b both held the lease, for 9ms.
     from ms       to ms  who  what     token  outcome
       0.000       1.000  A    acquire  #1 a   accepted, until 20.000
      30.000      31.000  A    renew    #1 a   accepted, until 50.000
      40.000      41.000  B    acquire  #2 b   accepted, until 60.000
`: `
			A acquire #1 a 100-101 accepted until=120
			A renew   #1 a 115-116 accepted until=135
			A renew   #1 a 130-131 accepted until=150
			B acquire #2 b 140-141 accepted until=160`,
		`
trace: What was refused, or failed, leaves no trace.
account/42: Version 3 was failed, and yet it was read.
     from ms       to ms  who  what   token  outcome
       0.000       1.000  A    write  #1 a   failed, read version 2, made version 3
       2.000       3.000  A    write  #1 a   accepted, read version 3, made version 4
`: `
			A write #1 a 0-1 accepted made=2
			A write #1 a 2-3 failed   seen=2 made=3
			A write #1 a 4-5 accepted seen=3 made=4`,
		`
once: Every acknowledged unit is counted exactly once, and nothing else is.
account/42: 1 counted, and only 0 can have been.
     from ms       to ms  who  what  token  outcome
       0.000       1.000  R    read  -      accepted, counted 2
`: `
			A acquire #1 a 0-1   accepted
			B acquire #2 b 10-11 accepted
			A unit    #1 a 12-13 refused
			R read    - 14-15    accepted counted=2`,
		`
once: Every acknowledged unit is counted exactly once, and nothing else is.
account/42: 1 were counted, then 3, and in between only 1 can have been.
     from ms       to ms  who  what  token  outcome
       0.000       1.000  R    read  -      accepted, counted 1
       2.000       3.000  A    unit  #1 a   accepted
       6.000       7.000  R    read  -      accepted, counted 3
`: `
			A unit #1 a 0-1   accepted
			R read - 4-5      accepted counted=1
			A unit #1 a 6-7   accepted
			R read - 10-11    accepted counted=3
			B unit #2 b 12-13 accepted`,
		`
once: Every acknowledged unit is counted exactly once, and nothing else is.
account/42: 1 were counted, 3 more acknowledged, and after that only 3 counted.
     from ms       to ms  who  what  token  outcome
       0.000       1.000  R    read  -      accepted, counted 1
       4.000      18.000  A    unit  #1 a   accepted
       4.000      18.000  B    unit  #2 b   accepted
       8.000      18.000  C    unit  #3 c   accepted
      28.000      29.000  R    read  -      accepted, counted 3
`: `
			A unit #1 a 0-1   accepted
			R read - 2-3      accepted counted=1
			A unit #1 a 6-20  accepted
			B unit #2 b 6-20  accepted
			R read - 8-9      accepted counted=2
			C unit #3 c 10-20 accepted
			R read - 30-31    accepted counted=3`,
		`
once: Every acknowledged unit is counted exactly once, and nothing else is.
account/42: This unit was accepted, and is remembered 0 times.
     from ms       to ms  who  what  token  outcome
       0.000       1.000  A    unit  a      accepted, counted 0
`: `
			A unit - 0-1 accepted counted=0 holder=a`,
	} {
		found := broken(t, story(t, text))
		require.Len(t, found, 1)
		require.Equal(t, want, "\n"+found[0].String())
	}
}

func TestALongTimeLineIsCutInTheMiddle(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for i := range 99 {
		fmt.Fprintf(&text, "A unit #1 a %d-%d accepted\n", 2*i, 2*i+1)
	}
	text.WriteString("R read - 500-501 accepted counted=98")
	found := broken(t, story(t, text.String()))
	require.Len(t, found, 1)
	require.Len(t, found[0].Ops, 100)
	lines := strings.Split(strings.TrimSpace(found[0].String()), "\n")
	require.Len(t, lines, 3+12+1+12)
	require.Regexp(t, `^ +22.000 +23.000  A `, lines[3+11])
	require.Regexp(t, `^ +\.\.\. +\.\.\. +76 more$`, lines[3+12])
	require.Regexp(t, `^ +176.000 +177.000  A `, lines[3+13])
	require.Regexp(t, `counted 98$`, lines[3+24])
}
