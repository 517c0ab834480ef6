#!/bin/sh
# Runs a server until standard input closes, then kills it with the processes that it
# started, as a power cut does. The test process has the other end of the pipe, so the
# input closes however that process ends.
#   $1 the server's folder, kept only if the last line of the input is "keep"   $2... its command
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
[ "$last" = keep ] && exit
cd /
rm -rf "$folder"
