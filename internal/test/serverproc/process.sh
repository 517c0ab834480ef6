#!/bin/sh
# Runs a server until standard input closes, and then ends it. The test process has the
# other end of the pipe, so the input closes however that process ends.
#   $1 the server's folder, kept only if the last line of the input is "keep"
#   $2 the signal that ends the server if its folder is not kept. Empty is KILL, also for
#      the processes that it started, as in a power cut   $3... its command
# Descriptor 3 is the lock on the folder. Of all processes only this shell has it.
folder=$1 signal=$2
shift 2
{
	"$@" </dev/null >"$folder/log" 2>&1 &
	echo $! >"$folder/pid"
	wait $!
	: >"$folder/ended"
} 3>&- &
read -r last
until [ -s "$folder/pid" ]; do sleep 0.01; done
server=$(cat "$folder/pid")
if [ "$last" != keep ] && [ -n "$signal" ]; then
	# Repeated until the server has ended: a signal that comes while the server is still
	# being set up is lost, since a shell ignores some signals in its background.
	until [ -e "$folder/ended" ] || [ ! -e "$folder" ]; do
		kill -s "$signal" "$server"
		sleep 0.1
	done
elif [ ! -e "$folder/ended" ]; then
	kill -s STOP "$server" # so that it starts no more children
	children=$(ps -A -o ppid= -o pid= | awk -v parent="$server" '$1 == parent { print $2 }')
	# shellcheck disable=SC2086 # several words
	kill -9 "$server" $children
	wait
	# By now another process has adopted the children. Their shared memory is in use until
	# they have ended.
	for child in $children; do
		while ps -o stat= -p "$child" | grep -q '^[^Z]'; do sleep 0.01; done
	done
fi
[ "$last" = keep ] || remove "$folder"
