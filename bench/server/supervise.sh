#!/bin/sh
# Runs a server for as long as standard input stays open.
#   $1 the signal that stops the server   $2 its folder   $3... its command
signal=$1 folder=$2
shift 2
{
	"$@" </dev/null >"$folder/log" 2>&1 &
	echo $! >"$folder/pid"
	wait $!
	: >"$folder/ended"
} &
read -r _
# Until it has ended: a signal that comes while the server is still being
# prepared is lost, since a shell ignores some of them in the background.
until [ -e "$folder/ended" ] || [ ! -e "$folder" ]; do
	kill -s "$signal" "$(cat "$folder/pid")"
	sleep 0.1
done
cd /
rm -rf "$folder"
