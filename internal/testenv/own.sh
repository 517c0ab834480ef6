#!/bin/sh
# Runs a server until standard input closes, then kills it as a power cut does, together with the processes that it
# started. The other end of the pipe is the test process's, so it closes however that process ends.
#   $1 the server's folder, which stays only where the last word was "keep"   $2... its command
folder=$1
shift
rm -f "$folder/ended" "$folder/pid"
{
	"$@" </dev/null >"$folder/log" 2>&1 &
	echo $! >"$folder/pid"
	wait $!
	: >"$folder/ended"
} &
read -r last
until [ -s "$folder/pid" ]; do sleep 0.01; done
server=$(cat "$folder/pid")
if [ ! -e "$folder/ended" ]; then
	kill -s STOP "$server" # so that it starts no more
	children=$(ps -A -o ppid= -o pid= | awk -v parent="$server" '$1 == parent { print $2 }')
	# shellcheck disable=SC2086 # several words
	kill -9 "$server" $children
	wait
	# Somebody else's children by now. The memory that they share is in use until they are gone.
	for child in $children; do
		while ps -o stat= -p "$child" | grep -q '^[^Z]'; do sleep 0.01; done
	done
fi
[ "$last" = keep ] && exit
cd /
rm -rf "$folder"
