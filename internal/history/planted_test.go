package history_test

// planted are incorrect histories. Each breaks exactly one rule.
var planted = []struct{ rule, name, story string }{
	{"order", "a writer wakes and its write is accepted", `
		A acquire #1 a 0-1   accepted until=20
		A claim   #1 a 2-3   accepted
		B acquire #2 b 30-31 accepted until=50
		B claim   #2 b 32-33 accepted
		B write   #2 b 34-35 accepted
		A write   #1 a 40-41 accepted`},
	{"order", "the mark is lost with a restart between two writes", `
		B write #2 b 0-5   accepted
		S fault - 6-30     accepted
		A write #1 a 40-41 accepted`},
	{"order", "the answer to the newer write comes at the last moment", `
		B write #2 b 0-9   accepted
		A write #1 a 10-30 accepted`},

	{"holder", "two holders write under one number", `
		A write #5 a 0-1 accepted
		B write #5 b 2-3 accepted`},
	{"holder", "two holders at the same moment", `
		A write #5 a 0-9 accepted
		B claim #5 b 0-9 accepted`},
	{"holder", "the mark names another holder than its writer", `
		A claim #5 a 0-1 accepted
		M mark  #5 b 2-3 accepted`},

	{"once", "an acknowledged unit is lost", `
		A unit #1 a 0-1 accepted
		B unit #2 b 2-3 accepted
		R read - 4-5    accepted counted=1`},
	{"once", "a unit is counted twice", `
		A unit #1 a 0-1 accepted
		R read - 4-5    accepted counted=2`},
	{"once", "a unit whose answer was lost is counted twice", `
		A unit #1 a 0-1 unknown
		R read - 4-5    accepted counted=2`},
	{"once", "a unit is counted before it began", `
		R read - 0-1    accepted counted=1
		A unit #1 a 2-3 accepted`},
	{"once", "the count falls with a restart", `
		A unit #1 a 0-1 unknown
		B unit #2 b 2-3 unknown
		R read - 4-5    accepted counted=2
		R read - 6-7    accepted counted=1`},
	{"once", "one unit in the middle of a long history is lost", `
		A unit #1 a 0-1   accepted
		A unit #1 a 2-3   accepted
		R read - 4-5      accepted counted=2
		A unit #1 a 6-7   accepted
		B unit #2 b 8-9   accepted
		R read - 10-11    accepted counted=3
		B unit #2 b 12-13 accepted
		R read - 14-15    accepted counted=4`},
	{"once", "a unit in the middle of a long history is counted twice", `
		A unit #1 a 0-1   accepted
		R read - 4-5      accepted counted=1
		A unit #1 a 6-7   accepted
		R read - 10-11    accepted counted=3
		B unit #2 b 12-13 accepted
		R read - 14-15    accepted counted=4`},
	{"once", "one of three units, two of which are at work for long, is lost", `
		A unit #1 a 0-1   accepted
		R read - 2-3      accepted counted=1
		A unit #1 a 6-20  accepted
		B unit #2 b 6-20  accepted
		R read - 8-9      accepted counted=2
		C unit #3 c 10-20 accepted
		R read - 30-31    accepted counted=3`},
	{"once", "what is refused later explains nothing", `
		A acquire #1 a 0-1   accepted until=20
		R read    - 4-5      accepted counted=1
		B acquire #2 b 30-31 accepted until=50
		A unit    #1 a 32-33 refused`},
	{"once", "more is counted than even a refused unit explains", `
		A acquire #1 a 0-1   accepted until=20
		B acquire #2 b 30-31 accepted until=50
		A unit    #1 a 32-33 refused
		R read    - 34-35    accepted counted=2`},
	{"once", "two tries of one unit are counted", `
		A unit #1 a 0-1 unknown  key=7
		B unit #2 b 2-3 accepted key=7
		C unit #3 c 4-5 refused  key=7
		R read - 6-7    accepted counted=2`},
	{"once", "one try of a unit is counted twice", `
		A unit #1 a 0-1 accepted key=7
		R read - 6-7    accepted counted=2`},
	{"once", "a unit that was tried twice is counted before it began", `
		R read - 0-1    accepted counted=1
		A unit #1 a 2-3 unknown  key=7
		B unit #2 b 4-5 accepted key=7`},
	{"once", "no try of an acknowledged unit is counted", `
		A unit #1 a 0-1 unknown  key=7
		B unit #2 b 2-3 accepted key=7
		C unit #3 c 4-5 accepted key=7
		R read - 6-7    accepted counted=0`},
	{"once", "of two units with tries one is lost", `
		A unit #1 a 0-1 accepted key=7
		B unit #2 b 2-3 accepted key=8
		B unit #2 b 4-5 accepted key=7
		R read - 6-7    accepted counted=1`},
	{"once", "less is counted than at the beginning", `
		R read - 0-1 accepted counted=-1`},
	{"once", "an accepted unit is found nowhere", `
		A unit #1 a 0-1 accepted counted=0`},
	{"once", "an accepted unit is found twice", `
		A unit #1 a 0-1 accepted counted=2`},
	{"once", "a unit whose answer was lost is found twice", `
		A unit #1 a 0-1 unknown counted=2`},

	{"spurious-refusal", "a claim is refused although there is no other holder", `
		A acquire #1 a 0-1 accepted until=20
		A claim   #1 a 2-3 refused`},
	{"spurious-refusal", "the mark refuses its own holder's second write", `
		A acquire #1 a 0-1 accepted until=20
		A write   #1 a 2-3 accepted
		A write   #1 a 4-5 refused`},
	{"spurious-refusal", "the newer token is refused", `
		A acquire #1 a 0-1   accepted until=20
		A claim   #1 a 2-3   accepted
		B acquire #2 b 30-31 accepted until=50
		B claim   #2 b 32-33 refused`},
	{"spurious-refusal", "a refusal comes before its cause", `
		A acquire #1 a 0-1   accepted until=20
		A unit    #1 a 2-29  refused
		B acquire #2 b 30-31 accepted until=50`},
	{"spurious-refusal", "a refusal is blamed on a number that went to its own holder", `
		A acquire #1 a 0-1 accepted until=20
		B acquire - 2-3    refused
		M mark    #1 a 4-5 accepted
		A write   #1 a 6-7 refused`},
	{"spurious-refusal", "only a mark that no writer can have raised is above", `
		A acquire #1 a 0-1 accepted until=20
		M mark    #9 z 4-5 accepted
		A write   #1 a 6-7 refused`},

	{"spurious-refusal", "the only greater number was refused itself", `
		A acquire #1 a 0-1 accepted until=20
		C claim   #9 c 2-3 refused
		A write   #1 a 4-5 refused`},
	{"spurious-refusal", "another holder's claim of the same number comes later", `
		A acquire #5 a 0-1   accepted
		A write   #5 a 2-3   refused
		B claim   #5 b 10-11 unknown`},

	{"mark", "a mark is forgotten with a restart", `
		M mark #7 a 0-1 accepted
		M mark -    2-3 accepted`},
	{"mark", "a mark is read below what was written", `
		A write #7 a 0-1 accepted
		M mark  #6 b 2-3 accepted`},
	{"mark", "a claim is accepted below a claim", `
		B claim #2 b 0-1 accepted
		A claim #1 a 2-3 accepted`},
	{"mark", "a claim is accepted below a write", `
		B write #2 b 0-1 accepted
		A claim #1 a 2-3 accepted`},
	{"mark", "a write is accepted below a claim", `
		B claim #2 b 0-1 accepted
		A write #1 a 2-3 accepted`},
	{"mark", "a write is accepted below the mark that was read", `
		M mark  #2 b 0-1 accepted
		A write #1 a 2-3 accepted`},
	{"mark", "what was refused once is accepted later", `
		A acquire #1 a 0-1   accepted until=20
		B acquire #2 b 30-31 accepted until=50
		A write   #1 a 32-33 refused
		A write   #1 a 34-35 accepted`},
	{"mark", "a mark is read below a refusal", `
		A acquire #1 a 0-1   accepted until=20
		B acquire #2 b 30-31 accepted until=50
		A write   #1 a 32-33 refused
		M mark    #1 a 34-35 accepted`},

	{"trace", "a refused unit is counted", `
		A acquire #1 a 0-1   accepted until=20
		B acquire #2 b 30-31 accepted until=50
		A unit    #1 a 32-33 refused
		R read    - 34-35    accepted counted=1`},
	{"trace", "a refused unit is counted with others", `
		A acquire #1 a 0-1   accepted until=20
		A unit    #1 a 2-3   accepted
		B acquire #2 b 30-31 accepted until=50
		A unit    #1 a 32-33 refused
		B unit    #2 b 34-35 unknown
		R read    - 36-37    accepted counted=3`},
	{"trace", "a refused unit is counted after a while", `
		A acquire #1 a 0-1   accepted until=20
		B acquire #2 b 30-31 accepted until=50
		A unit    #1 a 32-33 refused
		R read    - 34-35    accepted counted=0
		R read    - 36-37    accepted counted=1`},
	{"trace", "a refused unit is found", `
		A acquire #1 a 0-1   accepted until=20
		B acquire #2 b 30-31 accepted until=50
		A unit    #1 a 32-33 refused counted=1
		R read    - 34-35    accepted counted=1`},
	{"trace", "a failed write is found", `
		A write #1 a 32-33 failed counted=1`},
	{"trace", "the version of a failed write is read", `
		A write #1 a 0-1 accepted seen=1 made=2
		A write #1 a 2-3 failed   seen=2 made=3
		A write #1 a 4-5 accepted seen=3 made=4`},

	{"versions", "two writes make one version", `
		A write #1 a 0-1 accepted made=2
		B write #2 b 2-3 accepted made=2`},
	{"versions", "a write overwrites what it has not read", `
		A write #1 a 0-1 accepted seen=1 made=2
		B write #2 b 2-3 accepted seen=1 made=3`},
	{"versions", "no write made a version", `
		A write #1 a 0-1 accepted made=2
		B write #2 b 2-3 accepted made=4`},
	{"versions", "two versions are missing and one answer was lost", `
		A write #1 a 0-1 accepted made=2
		A write #1 a 2-3 unknown
		B write #2 b 4-5 accepted made=5`},
	{"versions", "a lost answer cannot explain a version made before", `
		A write #1 a 0-1 accepted made=2
		B write #2 b 2-3 accepted made=4
		A write #1 a 4-5 unknown`},
	{"versions", "a lost answer cannot explain a version between greater numbers", `
		B write #2 b 0-9 accepted made=2
		A write #1 a 0-9 unknown
		B write #2 b 0-9 accepted made=4`},
	{"versions", "a lost answer has a version of its own", `
		A write #1 a 0-1 accepted made=2
		A write #1 a 2-3 unknown  made=5
		B write #2 b 4-5 accepted made=4`},
	{"versions", "two lost answers have the same version, and another is missing", `
		A write #1 a 0-1 accepted made=1
		A write #1 a 2-3 unknown  made=2
		A write #1 a 4-5 unknown  made=2
		B write #2 b 6-7 accepted made=4`},
	{"versions", "a lost answer cannot explain a version between lesser numbers", `
		A write #1 a 0-9 accepted made=2
		B write #2 b 0-9 unknown
		A write #1 a 0-9 accepted made=4`},
	{"versions", "a lost answer cannot explain a version made after the next claim", `
		A write #1 a 0-1 unknown
		B claim #2 b 2-3 accepted
		C write - 10-11  accepted made=2
		C write - 12-13  accepted made=4`},
	{"versions", "a lost answer that began after the next claim cannot explain a version", `
		C write - 0-1     accepted made=2
		B claim #2 b 4-5  accepted
		A write #1 a 6-7  unknown
		C write - 12-13   accepted made=4`},
	{"versions", "a lost answer cannot explain a version if its number was another's", `
		C write #3 c 0-1 accepted made=1
		A write #4 x 2-3 unknown
		M mark  #4 a 4-5 accepted
		B write #7 b 6-7 accepted made=3`},
	{"versions", "the version falls", `
		A write #1 a 0-1 accepted made=3
		M mark  #1 a 0-9 accepted
		A write #1 a 2-3 accepted made=2`},
	{"versions", "a lesser number makes a later version", `
		B write #2 b 0-9 accepted made=2
		A write #1 a 0-9 accepted made=3`},

	{"numbers", "one number is granted twice", `
		A acquire #1 a 0-1   accepted until=20
		B acquire #1 b 30-31 accepted until=50`},
	{"numbers", "one number is granted twice, and the guard refuses the second holder", `
		A acquire #5 a 0-1   accepted until=20
		A write   #5 a 2-3   accepted
		B acquire #5 b 30-31 accepted until=50
		B write   #5 b 32-33 refused`},
	{"numbers", "one number is granted twice, and the guard refuses the first holder", `
		A acquire #5 a 0-1   accepted until=20
		B acquire #5 b 30-31 accepted until=50
		B write   #5 b 32-33 accepted
		A write   #5 a 34-35 refused`},
	{"numbers", "one number is granted twice, and only the second holder can have claimed", `
		A acquire #5 a 0-1   accepted until=20
		B acquire #5 b 30-31 accepted until=50
		A write   #5 a 34-35 refused`},
	{"numbers", "a later grant has a lesser number", `
		A acquire #7 a 0-1   accepted until=20
		B acquire #6 b 30-31 accepted until=50`},
	{"numbers", "the issuer forgets its numbers with a restart", `
		A acquire #7 a 0-1   accepted until=20
		A fault   - 2-25     accepted
		B acquire #1 b 30-31 accepted until=50
		B write   #1 b 32-33 accepted`},
	{"numbers", "a grant whose answer is lost has a lesser number", `
		A acquire #7 a 0-1   accepted until=20
		B acquire #6 b 30-31 unknown`},

	{"owner", "a predecessor renews", `
		A acquire #1 a 0-1   accepted until=20
		B acquire #2 b 30-31 accepted until=50
		A renew   #1 a 60-61 accepted until=80`},
	{"owner", "a predecessor releases", `
		A acquire #1 a 0-1   accepted until=20
		B acquire #2 b 30-31 accepted until=50
		A release #1 a 32-33 accepted`},
	{"owner", "a stranger renews", `
		A acquire #1 a 0-1   accepted until=20
		C renew   #1 c 30-31 accepted`},
	{"owner", "a stranger releases", `
		C release - 0-1 accepted holder=c`},
	{"owner", "a lease is renewed before it is granted", `
		C renew   #3 c 0-1   accepted
		C acquire #3 c 10-11 accepted until=30`},
	{"owner", "a holder of long ago renews", `
		A acquire #1 a 0-1     accepted until=20
		B acquire #2 b 30-31   accepted until=50
		C acquire #3 c 60-61   accepted until=80
		B renew   #2 b 100-101 accepted`},

	{"owner", "a renewal takes back what was released", `
		A acquire #1 a 0-1   accepted until=20
		A release #1 a 5-6   accepted
		A renew   #1 a 10-11 accepted until=30`},
	{"owner", "what was released is released again, the grant between is another's", `
		A acquire #1 a 0-1   accepted until=20
		A release #1 a 5-6   accepted
		B acquire #2 b 7-8   refused
		A release #1 a 10-11 accepted`},

	{"mutual-exclusion", "a grant before the lease has ended", `
		A acquire #1 a 0-1   accepted until=20
		B acquire #2 b 10-11 accepted until=30`},
	{"mutual-exclusion", "a grant while the lease is being renewed", `
		A acquire #1 a 0-1   accepted until=20
		A renew   #1 a 15-16 accepted until=35
		A renew   #1 a 30-31 accepted until=50
		B acquire #2 b 40-41 accepted until=60`},
	{"mutual-exclusion", "a grant after one of two concurrent renewals has expired", `
		A acquire #1 a 0-1   accepted until=20
		A renew   #1 a 10-29 accepted until=30
		A renew   #1 a 12-13 accepted until=32
		B acquire #2 b 30-31 accepted until=50`},
	{"mutual-exclusion", "the lease of another holder is renewed meanwhile", `
		A acquire #1 a 0-1     accepted until=100
		C acquire #2 c 110-111 accepted until=130
		C acquire #3 c 112-113 accepted until=132
		B acquire #4 b 120-121 accepted until=140`},

	{"number-reuse", "the number of a lost answer is granted to another", `
		A acquire #1 a 0-1   unknown
		B acquire #1 b 30-31 accepted until=50`},
	{"number-reuse", "the number of a lost answer had been granted before", `
		A acquire #1 a 0-1   accepted until=20
		B acquire #1 b 30-31 unknown`},
	{"number-reuse", "two answers with one number are lost", `
		A acquire #1 a 0-1 unknown
		B acquire #1 b 0-1 unknown`},

	{"liveness", "no writer is granted again", `
		A acquire #1 a 0-1   accepted until=20
		A fault   - 2-3      accepted
		B acquire - 4-24     refused
		B acquire - 34-50    refused
		B acquire - 60-61    refused`},
	{"liveness", "the new holder cannot write", `
		A acquire #1 a 0-1   accepted until=20
		A fault   - 2-3      accepted
		B acquire #2 b 24-25 accepted until=45
		B write   #2 b 26-80 accepted`},

	{"liveness", "no writer writes again although one wrote before", `
		A acquire #1 a 0-1   accepted until=20
		A write   #1 a 1-2   accepted
		A write   #1 a 2-9   unknown
		A fault   - 3-4      accepted
		B acquire - 5-60     refused`},
	{"liveness", "the new holder can claim and not write", `
		A acquire #1 a 0-1   accepted until=20
		A fault   - 2-3      accepted
		B acquire #2 b 24-25 accepted until=45
		B claim   #2 b 26-27 accepted
		B write   #2 b 28-40 failed
		B write   #2 b 41-80 failed`},
	{"liveness", "the new holder's write is too late", `
		A acquire #1 a 0-1   accepted until=20
		A fault   - 2-3      accepted
		B acquire - 10-30    refused
		B acquire #2 b 31-50 accepted until=51
		B write   #2 b 50-51 accepted`},

	{"bounded-blocking", "a paused holder keeps a claim waiting", `
		A acquire #1 a 0-1    accepted until=20
		A write   #1 a 2-91   accepted
		A fault   - 3-90      accepted
		B acquire #2 b 30-31  accepted until=50
		B claim   #2 b 32-100 accepted
		B write   #2 b 101-102 accepted`},
	{"bounded-blocking", "the longest of three faults keeps a unit waiting", `
		A write #1 a 2-101  accepted
		A claim #1 a 2-2    accepted
		A fault - 3-100     accepted
		A fault - 10-65     accepted
		A fault - 80-90     accepted
		B unit  #2 b 20-150 accepted`},
}
