#!/bin/sh
# Makes a database cluster if there is none, and becomes its server.
#   $1 the folder of the binaries   $2 the folder of the data   $3 what it begins as, the folder of a database cluster
#   or the connection to a server whose standby it is to be   $4... the server's options
bin=$1 data=$2 from=$3
shift 3
if [ ! -e "$data" ]; then
	if [ -d "$from" ]; then
		cp -R "$from" "$data" || exit
	else
		"$bin/pg_basebackup" -d "$from" -D "$data" -R -X stream -c fast --no-sync || exit
	fi
	chmod 700 "$data" || exit
fi
exec "$bin/postgres" -D "$data" "$@"
