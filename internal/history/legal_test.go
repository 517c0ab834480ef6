package history_test

// legal are correct histories, each with an op that looks wrong.
var legal = []struct{ name, story string }{
	{"nothing happens", ``},
	{"a late writer is refused", `
		A acquire #1 a 0-1   accepted until=20
		A claim   #1 a 2-3   accepted
		B acquire #2 b 30-31 accepted until=50
		B claim   #2 b 32-33 accepted
		B write   #2 b 34-35 accepted seen=1 made=2
		A write   #1 a 40-41 refused`},
	{"a transaction that began before the newer write is serialised before it", `
		A write #1 a 0-90  accepted
		B write #2 b 10-20 accepted`},
	{"a write begins in the instant in which another ends", `
		B write #2 b 0-10  accepted
		A write #1 a 10-20 accepted`},
	{"a unit is counted although its answer was lost", `
		A unit #1 a 0-1 unknown
		R read - 2-3    accepted counted=1`},
	{"a unit whose answer was lost is counted later", `
		A unit #1 a 0-1 unknown
		R read - 2-3    accepted counted=0
		R read - 4-5    accepted counted=1`},
	{"a unit is counted before its answer", `
		A unit #1 a 0-9 accepted
		R read - 2-3    accepted counted=1
		R read - 2-3    accepted counted=0`},
	{"a refused unit may have been looked for and not found", `
		A acquire #1 a 0-1   accepted until=20
		B acquire #2 b 30-31 accepted until=50
		A unit    #1 a 32-33 refused counted=0
		B unit    #2 b 34-35 accepted counted=1
		B unit    #2 b 36-37 unknown counted=0
		R read    - 38-39    accepted counted=1`},
	{"a refusal that ends after its cause began", `
		A acquire #1 a 0-1   accepted until=20
		A unit    #1 a 2-30  refused
		B acquire #2 b 30-31 accepted until=50`},
	{"the cause of a refusal is a grant whose answer was lost", `
		A acquire #1 a 0-1   accepted until=20
		B acquire #2 b 30-31 unknown
		A write   #1 a 32-33 refused`},
	{"the number of the cause is not even known", `
		A acquire #1 a 0-1 accepted until=20
		B acquire - 30-31  unknown
		A write   #1 a 32-33 refused
		A write   #1 a 34-35 refused`},
	{"the cause is a claim that failed", `
		A acquire #1 a 0-1 accepted until=20
		B claim #2 b 2-3   failed
		A write #1 a 4-5   refused`},
	{"the cause is the mark with which the history starts", `
		M mark    #9 z 0-1 accepted
		A acquire #1 a 2-3 accepted until=23
		A write   #1 a 4-5 refused`},
	{"a collision is refused", `
		A acquire #5 a 0-1 accepted
		A write   #5 a 2-3 accepted
		B claim   #5 b 4-5 refused`},
	{"a forged token is refused", `
		C write #1 c 0-1 refused`},
	{"numbers have gaps", `
		A acquire #1 a 0-1     accepted until=20
		B acquire #900 b 30-31 accepted until=50
		B write   #900 b 32-33 accepted`},
	{"a holder that acquires again gets the same number", `
		A acquire #1 a 0-1 unknown
		A acquire #1 a 2-3 accepted until=22
		A renew   #1 a 4-5 accepted until=24`},
	{"a holder that acquires again gets a greater number", `
		A acquire #1 a 0-1   accepted until=20
		A acquire #2 a 2-3   accepted until=22
		A renew   #1 a 4-5   accepted until=24
		A release #1 a 6-7   accepted
		B acquire #3 b 8-9   accepted until=28`},
	{"a grant that took long has the lesser number", `
		A acquire #1 a 0-90 accepted until=91
		B acquire #2 b 1-30 accepted until=50`},
	{"a grant whose caller gave up is made later", `
		A acquire #2 a 0-1   unknown
		B acquire #1 b 30-31 accepted until=50`},
	{"the number of a lost answer is returned to its holder later", `
		A acquire #1 a 0-1   unknown
		A acquire #1 a 30-31 accepted until=50`},
	{"an expired lease is granted to another holder", `
		A acquire #1 a 0-1   accepted until=20
		B acquire #2 b 19-21 accepted until=40`},
	{"a released lease is granted to another while the release is answered", `
		A acquire #1 a 0-1  accepted until=20
		A release #1 a 5-15 accepted
		B acquire #2 b 6-7  accepted until=26`},
	{"a release without a number", `
		A acquire #1 a 0-1  accepted until=20
		A release - 5-15    accepted holder=a
		B acquire #2 b 6-7  accepted until=26`},
	{"a renewal is answered while the resource is released", `
		A acquire #1 a 0-1 accepted until=20
		A release #1 a 5-9 accepted
		A renew   #1 a 8-10 accepted until=30`},
	{"a holder releases, acquires again, and renews", `
		A acquire #1 a 0-1   accepted until=20
		A release #1 a 5-6   accepted
		A acquire #2 a 7-8   unknown
		A renew   #2 a 10-11 accepted until=30
		A release #2 a 12-13 accepted`},
	{"an unanswered release frees the resource", `
		A acquire #1 a 0-1  accepted until=20
		A release #1 a 2-3  unknown
		A renew   #1 a 4-5  accepted until=25
		B acquire #2 b 6-7  accepted until=26`},
	{"a release in flight is applied after the next grant to the same holder", `
		A acquire #1 a 0-1   accepted until=20
		A release - 2-30     accepted holder=a
		A acquire #2 a 5-6   accepted until=60
		B acquire #3 b 31-32 accepted until=50`},
	{"a lease that was lost without a notice to its holder", `
		A acquire #1 a 0-1   accepted until=20
		A renew   #1 a 5-6   refused
		B acquire #2 b 7-8   accepted until=27`},
	{"a holder acquires again, for a shorter time", `
		A acquire #1 a 0-1   accepted until=90
		A acquire #2 a 2-3   accepted until=20
		B acquire #3 b 50-51 accepted until=70`},
	{"a holder shortens its lease", `
		A acquire #1 a 0-1  accepted until=20
		A renew   #1 a 2-3  accepted until=4
		B acquire #2 b 6-7  accepted until=26`},
	{"a predecessor's release is refused", `
		A acquire #1 a 0-1   accepted until=20
		B acquire #2 b 30-31 accepted until=50
		A release #1 a 32-33 refused`},
	{"a renewal in flight while another holder is granted", `
		A acquire #1 a 0-1   accepted until=20
		A renew   #1 a 18-40 accepted
		B acquire #2 b 39-40 accepted until=59`},
	{"the holder of a grant with an unknown number releases", `
		A acquire - 0-1      unknown holder=a
		B acquire #2 b 30-31 accepted until=50
		A release - 52-53    accepted holder=a`},
	{"a version is missing because an answer was lost", `
		A write #1 a 0-1 accepted seen=1 made=2
		A write #1 a 2-3 unknown
		B write #2 b 4-5 accepted seen=3 made=4`},
	{"a version that a failed write meant to make is made by one whose answer was lost", `
		A write #1 a 0-1 accepted seen=1 made=2
		A write #1 a 2-3 failed   seen=2 made=3
		A write #1 a 4-5 unknown
		A write #1 a 6-7 accepted seen=3 made=4`},
	{"versions start anywhere", `
		A write #1 a 0-1 accepted made=70
		A write #1 a 2-3 accepted seen=70 made=71`},
	{"writes at once make versions in the order of their numbers", `
		A write #1 a 0-9 accepted made=2
		B write #2 b 0-9 accepted made=3`},
	{"a failed write had meant to make the version that another makes", `
		A write #1 a 0-1 accepted made=2
		A write #1 a 2-3 failed   seen=2 made=3
		A write #1 a 4-5 accepted seen=2 made=3
		A write #1 a 6-7 accepted seen=3 made=4`},
	{"reads at the instant in which a unit begins or ends", `
		R read - 0-4      accepted counted=1
		A unit #1 a 4-5   accepted
		B unit #2 b 10-14 accepted
		R read - 14-15    accepted counted=1`},
	{"the holder of the mark is unknown", `
		A write #5 a 0-1 accepted
		M mark  #5 ? 2-3 accepted
		A write #5 a 4-5 accepted`},
	{"marks rise while they are read", `
		A claim #1 a 0-9 accepted
		M mark  - 1-2    accepted
		M mark  #1 a 3-4 accepted
		B claim #2 b 0-9 accepted
		M mark  #2 b 3-9 accepted`},
	{"no writer acquires after the faults", `
		A acquire #1 a 0-1 accepted until=20
		A fault   - 2-3    accepted`},
	{"the new holder writes after the old holder's lease has expired", `
		A acquire #1 a 0-1   accepted until=20
		A fault   - 2-3      accepted
		B acquire - 4-22     refused
		B acquire #2 b 23-24 accepted until=43
		B write   #2 b 25-44 accepted
		B write   #2 b 45-50 accepted`},
	{"the answer to the new holder's write is lost", `
		A acquire #1 a 0-1   accepted until=20
		A fault   - 2-3      accepted
		B acquire #2 b 24-25 accepted until=45
		B write   #2 b 26-80 unknown`},
	{"a writer that asked before the end of the faults waits for it", `
		A acquire #1 a 0-1   accepted until=20
		A fault   - 2-50     accepted
		B acquire #2 b 10-60 accepted until=70
		B write   #2 b 61-80 accepted
		B write   #2 b 81-95 accepted`},
	{"tries of one unit are counted once", `
		A unit #1 a 0-1  unknown  key=7
		R read - 2-3     accepted counted=0
		B unit #2 b 4-9  accepted key=7
		C unit #3 c 5-6  accepted key=7
		R read - 10-11   accepted counted=1
		C unit #3 c 12-13 accepted key=8
		R read - 14-15   accepted counted=2`},
	{"a unit whose tries were not answered is counted late, or never", `
		A unit #1 a 0-1 unknown key=7
		B unit #2 b 0-1 unknown key=7
		C unit #3 c 0-1 unknown key=8
		R read - 2-3    accepted counted=0
		R read - 6-7    accepted counted=1`},
	{"a refused try of a unit that is accepted later", `
		A acquire #1 a 0-1   accepted until=20
		B acquire #2 b 30-31 accepted until=50
		A unit    #1 a 32-33 refused  key=7
		R read    - 34-35    accepted counted=0
		B unit    #2 b 36-37 accepted key=7
		R read    - 38-39    accepted counted=1`},
	{"a writer asks once, and only reads after that", `
		A acquire #1 a 0-1 accepted until=20
		A fault   - 2-3    accepted
		B acquire - 4-5    refused
		B read    - 6-90   accepted counted=0`},
	{"a writer acquires late", `
		A acquire #1 a 0-1     accepted until=20
		A fault   - 2-3        accepted
		B acquire #2 b 400-401 accepted until=420
		B write   #2 b 402-440 accepted
		B write   #2 b 441-450 accepted`},
	{"a writer acquires, and acquires again much later", `
		A acquire #1 a 0-1     accepted until=20
		A fault   - 2-3        accepted
		B acquire - 4-5        refused
		B acquire #2 b 400-401 accepted until=420
		B write   #2 b 402-403 accepted`},
	{"the paused holder itself continues", `
		A acquire #1 a 0-1   accepted until=20
		A fault   - 2-3      accepted
		A write   #1 a 4-5   accepted
		B acquire - 4-90     refused`},
	{"a long transaction while another writer, that does nothing, is paused", `
		A fault - 3-90     accepted
		B claim #2 b 2-100 accepted`},
	{"a long transaction while its own writer is paused", `
		A write #1 a 2-91  accepted
		A fault - 3-90     accepted
		B fault - 4-80     accepted
		B claim #2 b 2-100 accepted`},
	{"a fault as long as the bound", `
		A write #1 a 2-91  accepted
		A fault - 3-53     accepted
		B claim #2 b 2-100 accepted`},
	{"a long transaction, and a long fault that begins near its end", `
		A write #1 a 0-200   accepted
		A fault - 60-200     accepted
		B claim #2 b 30-100  accepted
		C claim #3 c 195-260 accepted`},
	{"a short claim while a writer is paused", `
		A write #1 a 0-200 accepted
		A fault - 10-190   accepted
		B claim #2 b 65-70 accepted`},
	{"a long claim while a writer is paused whose work was done", `
		A write #1 a 0-1   accepted
		A fault - 3-90     accepted
		B claim #2 b 2-100 accepted`},
	{"a wait as long as the bound, and a little work", `
		A write #1 a 2-91  accepted
		A fault - 3-90     accepted
		B claim #2 b 40-95 accepted`},
	{"a wait as long as the bound", `
		A write #1 a 2-91 accepted
		A fault - 3-90    accepted
		B claim #2 b 40-90 accepted`},
}
