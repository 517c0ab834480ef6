#!/bin/sh
# Runs a server while standard input is open. The test process has the other end of the
# pipe, so it closes however that process ends.
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
# Repeated until the server has ended or the test has removed the folder: a signal that
# comes while the server is still being set up is lost, since a shell ignores some signals
# in its background.
until [ -e "$folder/ended" ] || [ ! -e "$folder" ]; do
	kill -s "$signal" "$(cat "$folder/pid")"
	sleep 0.1
done
cd /
rm -rf "$folder"
