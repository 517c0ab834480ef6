#!/bin/sh
# A test process may have another PATH.
PATH=$PATH:/usr/bin:/bin

# end kills the processes that work in a folder or below it, and those that have it as
# their folder of temporary files. It does so until there are none, since one may start
# another one. Only Linux lists them: elsewhere there is nothing below /proc.
end() {
	tries=0
	while running=$(processes "$1") && [ -n "$running" ] && [ $((tries += 1)) != 100 ]; do
		# shellcheck disable=SC2086 # several words
		kill -9 $running
	done 2>/dev/null
}

processes() {
	{
		find /proc/[0-9]*/cwd -lname "$1" -o -lname "$1/*"
		grep -lxz "TMPDIR=$1" /proc/[0-9]*/environ
	} 2>/dev/null | cut -d / -f 3 | grep -vx $$
}

# remove removes a folder. A PostgreSQL that was killed in it has left a segment of shared
# memory, whose id is in the seventh line of its file: only a start in the same folder would
# free that. Removing is repeated, since a process that is ending may still write.
remove() {
	cd /
	find "$1" -name postmaster.pid | while read -r file; do
		ipcrm -m "$(awk 'NR == 7 { print $2 }' "$file")"
	done 2>/dev/null
	tries=0
	until rm -rf "$1" || [ $((tries += 1)) = 100 ]; do sleep 0.1; done 2>/dev/null
	[ ! -e "$1" ]
}
